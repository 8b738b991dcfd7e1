"""sst-bench random=: what is timed is what was asked for."""

import json
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from test_sizes import SMALL

from speculative_tts.commands import bench
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.rules.group import Group
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts_benchmarks import other_engines, peers, random
from speculative_tts_benchmarks.random import computed, expected
from speculative_tts_benchmarks.sizes import LLASA_8B

ASKED = ["random=cosyvoice2", "limit=1", "tokens=6", "steps=1", "draws=10"]
ALONE = ["transformers=false"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shape shrunken; everything else as it is."""
    monkeypatch.setitem(random.SIZES, "cosyvoice2", SMALL)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("rule", "made", "told"),
    [
        (
            ["rule=group", "rule.groups.mean_size=40"],
            (Group, None),
            "rule group, synthetic groups of 40",
        ),
        (["rule.beta=0.3"], (Tolerance, 0.3), "rule tolerance, beta 0.3"),
        ([], (Tolerance, 0.0), "rule exact"),
    ],
)
def test_the_rule_that_was_asked_for_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: list[str], made: Any, told: str
) -> None:
    """rule=group timed the exact rule and did not say so."""
    timed = []
    run = random.Speculation

    def watched(*arguments: object) -> object:
        timed.append(arguments[2])
        return run(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(random, "Speculation", watched)
    assert bench.main([*ASKED, *ALONE, *rule, f"out={tmp_path}"]) == 0
    assert [(type(one), getattr(one, "beta", None)) for one in timed] == [made]
    assert told in (tmp_path / "cosyvoice2_random.md").read_text()
    figures = json.loads((tmp_path / "cosyvoice2_random.json").read_text())
    assert 0 <= figures["acceptance_rate"] <= 1


@pytest.mark.usefixtures("small")
def test_weights_that_do_not_fit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = SMALL.weights(torch.float32, 0)
    layers = sum(value.numel() for _, name, value in weights.named() if "norm" not in name)
    assert SMALL.parameters == layers + weights.embedding.numel() + weights.head.numel()
    assert 7.5e9 < LLASA_8B.parameters < 8.1e9
    monkeypatch.setattr(random, "free_gib", lambda: 1.9 * 4 * SMALL.parameters / 2**30)
    assert bench.main([*ASKED, *ALONE, f"out={tmp_path}"]) == 0
    told = "are free; give runtime.dtype=bfloat16 transformers=false"
    assert bench.main([*ASKED, f"out={tmp_path}"]) == 2
    assert told in capsys.readouterr().err
    monkeypatch.setitem(other_engines.PEERS, "llama.cpp", lambda *_: Stub())
    assert bench.main([*ASKED, *ALONE, f"out={tmp_path}"]) == 2
    assert told in capsys.readouterr().err


class Stub:
    """A peer that does nothing in a hundredth of a second."""

    def seconds(self, prompt: list[int], tokens: int, sampler: Sampler) -> float:
        time.sleep(0.01)
        return 0.01


@pytest.mark.usefixtures("small")
def test_others_stand_beside_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(other_engines.PEERS, "another", lambda *_: Stub())
    settings = ["runtime.dtype=bfloat16", "limit=2"]
    assert bench.main([*ASKED, *settings, f"out={tmp_path}"]) == 0
    printed = (tmp_path / "cosyvoice2_random.md").read_text()
    assert "CosyVoice 2, bfloat16, random weights, rule exact, lookahead 3" in printed
    others = ["transformers generate", "transformers assisted", "another"]
    made = json.loads((tmp_path / "cosyvoice2_random.json").read_text())
    assert [*made["continuations"]] == ["autoregressive", "speculative", *others]
    assert made["seconds"]["another"] == [0.01, 0.01]
    for name in made["continuations"]:
        assert printed.count(f"\n| {name} |") == 2  # whole, and its prompt apart
    assert made["parts"][0]["prompt_core_seconds"]["speculative"] > 0
    assert 0 < made["acceptance_rate"] < 1


@pytest.mark.usefixtures("small")
def test_every_process_times_all_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real sizes were timed in one process, by three prompts, without an interval."""
    given = list[tuple[Any, dict[str, Any]]]()

    def here(work: Callable[[Any], Any], pieces: list[Any]) -> Iterator[Any]:
        for piece in pieces:
            given.append(piece)
            yield work(piece)

    monkeypatch.setattr(random, "afresh", here)
    monkeypatch.setitem(other_engines.PEERS, "another", lambda *_: Stub())
    assert bench.main([*ASKED, *ALONE, "limit=10", "processes=3", f"out={tmp_path}"]) == 0
    assert [[*made] for _, made in given] == [["another"]] * 2, "another process has no peers"
    made = json.loads((tmp_path / "cosyvoice2_random.json").read_text())
    assert {len(one) for one in made["seconds"].values()} == {30}
    value, low, high = made["continuations"]["speculative"]["vs_autoregressive"]
    assert low < value < high
    assert len(made["parts"]) == 3
    assert (
        "\nTimed in 3 processes, one after the other, each of which measured all"
        in (tmp_path / "cosyvoice2_random.md").read_text()
    )


def test_another_process_finds_the_peers_by_their_names() -> None:
    for _, making in peers.KNOWN.values():
        assert pickle.loads(pickle.dumps(making)) is making


def test_peers_that_are_installed_are_added_and_others_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers, "PEERS", {})
    monkeypatch.setattr(peers, "find_spec", lambda name: name == "openvino" or None)
    peers.add_installed()
    assert [*peers.PEERS] == ["OpenVINO"]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("llama.cpp is not installed and left out: pip install")


def test_speedup_of_a_free_perfect_draft() -> None:
    steps = {"target step (1 token)": 1.0, "verify (4 tokens)": 1.0, "draft step (1 token)": 0.0}
    assert computed(steps, 1.0, 3) == 4.0
    assert computed(steps, 0.0, 3) == 1.0


def test_what_the_steps_allow_is_told_as_assumed() -> None:
    speedups = {str(rate): 2 * rate for rate in random.RATES}
    part = {"steps": {"target step (1 token)": 0.5}, "computed_speedup": speedups}
    heading, _, *rows = expected([part])
    assert heading.count("assumed") == 1
    assert heading.count("computed") == 2
    assert rows[0] == "| target alone | 1.00 | 2.0 |"
    assert rows[-1] == "| 0.8 | 1.60 | 3.2 |"
