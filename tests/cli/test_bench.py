"""sst-bench: what it refuses before it loads anything, and what it times of which target."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from speculative_tts.assets import resolve
from speculative_tts.bench import engine as steps
from speculative_tts.bench import search, streams
from speculative_tts.bench.asked import Asked, asked_of
from speculative_tts.bench.checkpoints import Checkpoints
from speculative_tts.bench.engine import drafts
from speculative_tts.bench.systems import heads_missing
from speculative_tts.commands import bench, decode, precompute, speak
from speculative_tts.commands.app import Command
from speculative_tts.costs.lookahead import written_out
from speculative_tts.decoding.engine import Engine
from speculative_tts.schema.bench import BenchConfig


@pytest.mark.parametrize(("target", "drafting"), [("tiny", True), ("tiny_valle", False)])
def test_a_target_is_timed_with_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, drafting: bool
) -> None:
    """The tiny VALL-E has heads and no draft; it once needed one of the same vocabulary."""
    monkeypatch.setattr(search, "PATH_SEARCH", ((50,), 2, 3))
    monkeypatch.setattr(steps, "GROUP_RULE", (50, 3, 2, 1))
    few = ["limit=1", "tokens=2", "steps=1", "draws=10", "transformers=false"]
    assert bench.main([f"target={target}", f"out={tmp_path}", *few]) == 0
    printed = (tmp_path / f"{target}.md").read_text()
    for row in ("autoregressive", "target step (1 token)", "target pass (2 tokens)", "heads (8)"):
        assert f"\n| {row} |" in printed
    assert "| best path, 50 codes, n = 2, k = 3, union |" in printed
    for row in (
        "exact, heads, lookahead 3",
        "exact, path of heads, lookahead 3",
        "exact, look-up, lookahead 3",
        "4 heads unverified, best path",
        "8 heads unverified, best path",
    ):
        assert f"\n| {row} |" in printed
    sped = ("exact, lookahead 3", "tolerance b0.4, lookahead 3", "exact, recurrent, lookahead 3")
    for row in (*sped, "draft step (1 token)", "accept"):
        assert (f"\n| {row} |" in printed) == drafting
    told = ["exact", "tolerance b0.4", "tolerance b0.4, recurrent"] if drafting else []
    for name in [*told, "exact, heads", "exact, path of heads", "exact, look-up"]:
        assert f"\n| {name}: lookahead |" in printed
        reach = 7 if "heads" in name else 8
        (part,) = json.loads((tmp_path / f"{target}.json").read_text())["parts"]
        made = part["lookaheads"][name]
        assert [row["lookahead"] for row in made] == [*range(1, reach + 1)]
    assert ("The target has no draft" in printed) == (not drafting)
    assert "Heads are left out" not in printed
    assert (tmp_path / f"{target}.json").is_file()


def test_a_sweep_keeps_the_table_of_every_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`rule=typical,top` wrote both into one file, and the second alone was left."""
    said: list[Path] = []
    monkeypatch.setattr(bench, "_run_checkpoints", lambda _, out: said.append(out) or 0)
    assert bench.main(["rule=typical,top", f"out={tmp_path}/bench"]) == 0
    assert bench.main([f"out={tmp_path}/bench"]) == 0
    assert [one.name for one in said] == ["bench-1", "bench-2", "bench"]


def test_heads_without_a_folder_are_said_to_be_left_out() -> None:
    """The table was silent about them, also for a mistyped heads.path."""
    assert not heads_missing(bench.main.compose([]))
    assert heads_missing(bench.main.compose(["target=tiny_fine"])) == (
        "Heads are left out, heads.path=tiny:target_fine_heads and "
        "viterbi.transitions.path=tiny:codec_fine_transitions are no folders: make them with "
        "`sst-train-heads target.path=tiny:target_fine codes=<codes> n=8 out=<folder>` and "
        "`sst-precompute cache=transitions codec.name=tiny codec.path=tiny:codec_fine "
        "transitions.codes=<codes> export=<folder>`, and name them."
    )
    said = heads_missing(bench.main.compose(["heads.path=runs/typo"]))
    assert said.startswith("Heads are left out, heads.path=runs/typo is no folder: make them with")


def test_each_step_feeds_the_tokens_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verification was timed a token short, and not at all where look-up alone drafts."""
    engine = Checkpoints(bench.main.compose(["draft=itself", "lookahead=9"])).engine
    monkeypatch.setattr(type(engine.target), "extend", lambda _, ids, *__, **___: ids.shape[1])
    monkeypatch.setattr(steps, "medians", lambda parts, *_: {k: run() for k, run in parts.items()})
    fed = steps.step_costs(engine, None, context=10, block=4, repeats=1)
    for name, tokens in fed.items():
        assert f"({tokens:.0f} token" in name
    assert {steps.verify_step(lookahead) for lookahead in range(1, 10)} < fed.keys()


def test_the_asked_drafter_is_timed_by_the_asked_rule() -> None:
    """`drafter=lookup rule=typical` once timed neither, and called the draft missing."""
    for given, name in (
        (["drafter=lookup", "rule=typical"], "typical e0.3 a0.09, look-up"),
        (["drafter=heads", "rule=group", "rule.groups.mean_size=10"], "group m10, path of heads"),
        (["lookahead=adaptive"], "exact, h1.5"),
        (["drafter=frequent"], "tolerance b0.4, recurrent c1024"),
    ):
        config = written_out(bench.main.compose(given))
        here = Checkpoints(replace(config, limit=1))
        assert name in here.engines
        assert drafts(here.engine)


@pytest.mark.whole
def test_several_processes_give_intervals_over_them(tmp_path: Path) -> None:
    """Speeds of one process had an interval over its prompts, beside which the next one lay."""
    few = ["limit=10", "tokens=2", "steps=1", "transformers=false", "processes=2"]
    assert bench.main([f"out={tmp_path}", *few]) == 0
    made = json.loads((tmp_path / "tiny.json").read_text())
    assert made["processes"] == 2
    assert {len(one) for one in made["seconds"].values()} == {20}
    value, low, high = made["continuations"]["exact, lookahead 3"]["vs_autoregressive"]
    assert low < value < high
    printed = (tmp_path / "tiny.md").read_text()
    assert printed.startswith("Timed in 2 processes, one after the other")
    assert len(made["parts"]) == 2
    assert re.search(r"\| target step \(1 token\) \| \d+\.\d+ \[\d", printed)
    assert "\n10 prompts, 2 tokens each" in printed


def test_a_folders_rows_are_of_one_number_of_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page says once, above its table, of how many processes all rows are."""
    (tmp_path / "streams.json").write_text('{"rows": [{"target": "tiny", "streams": 1}]}')
    assert bench.main([f"out={tmp_path}", "streams=2", "processes=5"]) == 2
    assert "has rows of 0 processes, and processes=5" in capsys.readouterr().err


@pytest.mark.whole
def test_listeners_are_served_in_every_process(tmp_path: Path) -> None:
    few = ["limit=2", "lookahead=2", "streams=2", "processes=2"]
    assert bench.main([f"out={tmp_path}", *few]) == 0
    rows = json.loads((tmp_path / "streams.json").read_text())["rows"]
    assert len(rows) == 3
    for one in rows:
        first, second = one["processes"]
        assert [x["tokens"] for x in first] == [x["tokens"] for x in second]
        assert [x["seconds"] for x in first] != [x["seconds"] for x in second]
    assert "Timed in 2 processes" in (tmp_path / "streams.md").read_text()


@pytest.mark.parametrize("command", [bench.main, decode.main, precompute.main])
def test_the_tiny_valle_brings_its_codec(command: Command[BenchConfig]) -> None:
    assert command.compose(["target=tiny_valle"]).codec.name == "tiny_residual"
    assert command.compose(["target=tiny_valle", "codec=tiny"]).codec.name == "tiny"
    assert command.compose().codec.name == "tiny"


@pytest.mark.parametrize("command", [bench.main, decode.main])
def test_the_fine_target_brings_its_codec_and_draft(command: Command[BenchConfig]) -> None:
    config = command.compose(["target=tiny_fine"])
    assert config.codec.path == str(resolve("tiny:codec_fine"))
    assert config.draft.path == str(resolve("tiny:draft_fine"))
    assert command.compose(["target=tiny_fine", "draft=itself"]).draft.name == "itself"


def test_a_target_that_brings_no_draft_drafts_for_itself() -> None:
    """And nobody took the shipped draft, of another vocabulary, for it."""
    commands: list[tuple[Command[Any], list[str]]] = [(bench.main, []), (speak.main, ["text=two"])]
    for command, words in commands:
        for given in ("target=llasa_1b", "target.path=runs/target/target"):
            config = command.compose([given, *words])
            assert config.draft.path == config.target.path
            own = command.compose([given, "draft.path=runs/mine", *words])
            assert own.draft.path == "runs/mine"


def test_a_drafters_folder_says_which_drafter_it_is() -> None:
    assert decode.main.compose(["drafter.path=runs/recurrent"]).drafter.name == "recurrent"


def test_a_method_does_not_choose_the_codec() -> None:
    config = decode.main.compose(["method=mtp", "target=tiny_valle"])
    assert config.codec.name == "tiny_residual"


def test_streams_add_up_to_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sweep's jobs and other targets' commands stand in one table; a repeat replaces its rows."""

    def short(config: BenchConfig, engine: Engine) -> list[Asked]:
        found = asked_of(config, engine)
        return [
            replace(one, request=replace(one.request, min_tokens=1, max_tokens=12)) for one in found
        ]

    monkeypatch.setattr(streams, "asked_of", short)
    few = ["limit=2", "lookahead=2", "draws=0", f"out={tmp_path}"]
    assert bench.main([*few, "streams=1,2"]) == 0
    assert bench.main([*few, "streams=2", "target=tiny_fine"]) == 0
    assert bench.main([*few, "streams=2"]) == 0
    rows = json.loads((tmp_path / "streams.json").read_text())["rows"]
    systems = ["target alone", "exact recurrent, lookahead 2"]
    systems.append("tolerance b0.2 recurrent, lookahead 2")
    places = [("tiny", 1), ("tiny", 2), ("tiny_fine", 2)]
    assert [(one["target"], one["streams"], one["system"]) for one in rows] == [
        (*place, system) for place in places for system in systems
    ]
    assert all(len(one["processes"][0]) == 2 for one in rows)
    table = (tmp_path / "streams.md").read_text()
    assert table.count("\n| tiny") == 9
    assert table in capsys.readouterr().out


def test_a_codec_of_whole_utterances_serves_no_listeners(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["limit=1", "streams=2", "target=tiny_valle"]
    assert bench.main([f"out={tmp_path / 'bench'}", *settings]) == 2
    assert "makes waves of whole utterances only" in capsys.readouterr().err
    assert not (tmp_path / "bench").exists()
