"""Names of runs: equal for the same run, whatever was left out, moved or came later."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from speculative_tts import provenance
from speculative_tts.native import library
from speculative_tts.native.library import kernel_label
from speculative_tts.reporting.runs import flatten
from speculative_tts.runs import naming
from speculative_tts.runs.naming import LAWS, OWN_LAWS, run_name, search_label
from speculative_tts.schema.common import (
    CheckpointConfig,
    CodecConfig,
    Device,
    DType,
    GroupsConfig,
    ListConfig,
    RowsConfig,
    Smoothing,
    TransitionsConfig,
)
from speculative_tts.schema.decode import (
    Candidates,
    Capture,
    DecodeConfig,
    HeadsConfig,
    Kernels,
    PathMode,
    RuntimeConfig,
    System,
    ViterbiConfig,
)
from speculative_tts.schema.drafters import (
    DrafterDType,
    HeadsDrafterConfig,
    LMDrafterConfig,
    RecurrentDrafterConfig,
)
from speculative_tts.schema.rules import ExactRule, GroupRule, ToleranceRule


def config(folder: Path, **changes: Any) -> DecodeConfig:
    """Of files of one line each."""
    parts: dict[str, Any] = {}
    kinds = {
        "target": CheckpointConfig,
        "draft": CheckpointConfig,
        "codec": CodecConfig,
        "data": ListConfig,
    }
    for name, kind in kinds.items():
        (folder / name).write_text(name)
        parts[name] = kind(name=name, path=str(folder / name))
    plain = {"rule": ExactRule(), "drafter": LMDrafterConfig(), "heads": HeadsConfig(n=4)}
    return DecodeConfig(
        **parts | plain | {"runtime": RuntimeConfig(kernels=Kernels.torch)} | changes
    )


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({"system": System.target, "seed": 4}, "target-s4"),
        ({"system": System.codec}, "codec-s0"),
        ({}, "speculative-exact-k3-s0"),
        ({"rule": ToleranceRule(beta=0.4), "lookahead": 5}, "speculative-tolerance-b0.4-k5-s0"),
        ({"rule": GroupRule(groups=GroupsConfig(mean_size=3))}, "speculative-group-m3-k3-s0"),
        ({"system": System.swap, "rule": GroupRule(groups=GroupsConfig())}, "swap-m10-s0"),
        ({"system": System.swap}, "swap-s0"),
        ({"drafter": HeadsDrafterConfig()}, "speculative-exact-k3-heads-n4-sample-union-k3-s0"),
        (
            {"system": System.multi_token, "viterbi": ViterbiConfig(mode=PathMode.none)},
            "multi_token-n4-none-s0",
        ),
    ],
)
def test_labels_say_what_a_run_is(tmp_path: Path, changes: dict[str, Any], label: str) -> None:
    given = config(tmp_path, **changes)
    assert naming.label(given) == label
    name, _, signature = run_name(given).rpartition("-")
    assert name == label
    assert len(signature) == 8


@pytest.mark.parametrize(
    ("heads", "viterbi", "parts"),
    [
        (HeadsConfig(), ViterbiConfig(mode=PathMode.none, weight=2.0), ["nall", "none"]),
        (HeadsConfig(n=3), ViterbiConfig(), ["n3", "sample", "union", "k3"]),
        (
            HeadsConfig(n=1),
            ViterbiConfig(PathMode.best, Candidates.perhead, 5, 0.5, boundary=True),
            ["n1", "best", "perhead", "k5", "w0.5", "boundary"],
        ),
    ],
)
def test_labels_of_heads(heads: HeadsConfig, viterbi: ViterbiConfig, parts: list[str]) -> None:
    assert search_label(heads, viterbi) == parts


def test_the_same_run_has_one_name(tmp_path: Path) -> None:
    """Whatever it does not read, wherever things lie, as many together as may be."""
    plain = config(tmp_path)
    name = run_name(plain)
    viterbi = ViterbiConfig(mode=PathMode.none)
    for other in (
        {"heads": HeadsConfig(n=2)},
        {"viterbi": viterbi},
        {"batch_size": 7},
        {"workers": 2},
        {"out": "elsewhere"},
        {"plan": True},
        {"timing": None} if plain.timing is None else {"chunk": None},
        {"rule": ExactRule(block=False)},
        {"runtime": replace(plain.runtime, graphs=Capture.auto)},
    ):
        assert run_name(replace(plain, **other)) == name
    (tmp_path / "moved").mkdir()
    assert run_name(config(tmp_path / "moved")) == name
    searching = {"system": System.multi_token}
    weighed = replace(viterbi, weight=0.5, top_k=9)
    assert run_name(config(tmp_path, **searching, viterbi=viterbi)) == run_name(
        config(tmp_path, **searching, viterbi=weighed)
    )


def test_another_run_has_another_name(tmp_path: Path) -> None:
    plain = config(tmp_path)
    signatures = {run_name(plain)[-8:]}
    changes: list[dict[str, Any]] = [
        {"rule": ExactRule(block=True)},
        {"runtime": replace(plain.runtime, graphs=Capture.off)},
        {"runtime": replace(plain.runtime, threads=2)},
        {"chunk": 4},
        {"timing": 3},
        {"limit": 5},
        {"target": replace(plain.target, rows=RowsConfig(code="<c{}>"))},
        {"target": replace(plain.target, instruction="Be kind.<|endofprompt|>")},
        {"seed": 1},
        {"lookahead": 4},
        {"system": System.draft},
        {"rule": ToleranceRule(beta=0.0)},
        {"rule": ToleranceRule(beta=0.1)},
        {"drafter": HeadsDrafterConfig(), "viterbi": ViterbiConfig(mode=PathMode.none)},
    ]
    signatures |= {run_name(replace(plain, **other))[-8:] for other in changes}
    (tmp_path / "codec").write_text("other content")
    signatures.add(run_name(plain)[-8:])
    assert len(signatures) == len(changes) + 2


def test_a_signature_is_over_settings_laws_and_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And counts a batch of one, as every run before did."""
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(naming, "signature", lambda values: seen.append(values) or "12345678")
    monkeypatch.setattr(library, "kernel_label", lambda runtime: f"{runtime.kernels.name} of today")
    groups = GroupsConfig(cache=str(tmp_path))
    run_name(config(tmp_path, rule=GroupRule(groups=groups)))
    viterbi = ViterbiConfig(mode=PathMode.none)
    run_name(config(tmp_path, system=System.multi_token, viterbi=viterbi))
    run_name(config(tmp_path, system=System.swap, source="/somewhere/target-s0-1234"))
    run_name(config(tmp_path, system=System.swap))
    run_name(config(tmp_path, system=System.multi_token))
    spoken, multi, moved, none, searched = seen
    assert (spoken["batch_size"], spoken["laws"]) == (1, LAWS)
    assert spoken["runtime"]["kernels"] == "torch of today"
    assert "graphs" not in spoken["runtime"]
    assert "cache" not in spoken["rule"]["groups"]
    assert spoken["rule"]["groups"]["theta"] is None
    assert multi["viterbi"] == {"mode": "none"}
    assert (moved["source"], none["source"]) == ("target-s0-1234", None)
    assert "runtime" not in moved
    assert moved["laws"] == OWN_LAWS["swap"] > LAWS, "its tokens are no older run's"
    assert {"cache", "workers", "codes"} & {*searched["viterbi"]["transitions"]} == {"codes"}


def test_a_run_keeps_what_it_reads(tmp_path: Path) -> None:
    assert set(naming.settings(config(tmp_path, system=System.codec))) == {
        *("system", "codec", "data", "limit")
    }
    model = {
        "system",
        "codec",
        "data",
        "limit",
        "target",
        "sampling",
        "runtime",
        "seed",
        "timing",
        "processes",
    }
    both = model | {"chunk", "drafter", "rule", "lookahead", "baseline", "instrument"}
    assert set(naming.settings(config(tmp_path))) == both | {"draft"}
    heads = naming.settings(config(tmp_path, drafter=HeadsDrafterConfig()))
    assert set(heads) == both | {"heads", "viterbi"}


def test_settings_that_came_later_count_once_they_differ(tmp_path: Path) -> None:
    plain = config(tmp_path, timing=None)
    later = (
        *("first", "count", "offset", "slots", "more", "end_in_frame", "ends", "voice_turn"),
        *("speaker", "speakers", "voice", "voice_codes", "max_tokens"),
    )
    rows = {f"{model}.rows.{key}" for model in ("target", "draft") for key in later}
    both = {"runtime.graphs", "runtime.speculate", "timing", "processes", "drafter.entropy"} | rows
    both |= {"sampling.sampler"}
    assert left_out(plain) == both | {"rule.block", "chunk"}
    other = replace(plain, rule=ExactRule(block=True), chunk=3)
    assert left_out(other) == both
    groups = replace(plain, rule=GroupRule(groups=GroupsConfig()))
    assert left_out(groups) == both | {"rule.groups.cache", "rule.block", "chunk"}


def left_out(config: DecodeConfig) -> set[str]:
    """Dotted keys that are no part of what a run is, but for where runs and caches lie."""
    every, own = (flatten(provenance.plain(config, identity=one)) for one in (False, True))
    places = ("out", "cache", "viterbi.transitions.cache", "viterbi.transitions.workers")
    assert {*places} <= every.keys() - own.keys()
    return every.keys() - own.keys() - {*places}


@pytest.mark.parametrize(
    ("groups", "size"),
    [
        (GroupsConfig(), 10.0),
        (GroupsConfig(mean_size=4.5), 4.5),
        (GroupsConfig(theta=0.5), None),
        (GroupsConfig(theta=0.0), None),
    ],
)
def test_a_default_size_is_written_out(tmp_path: Path, groups: GroupsConfig, size: float) -> None:
    given = config(tmp_path, rule=GroupRule(groups=groups, block=True))
    assert naming.settings(given)["rule"]["groups"]["mean_size"] == size
    sized = replace(given, rule=GroupRule(groups=replace(groups, mean_size=size), block=True))
    assert run_name(given) == run_name(sized)


def test_a_gpu_is_what_models_compute_with() -> None:
    assert kernel_label(RuntimeConfig(device=Device.cuda)) == "cuda"
    assert kernel_label(RuntimeConfig(kernels=Kernels.torch)) == "torch"


@pytest.mark.parametrize(
    ("instructions", "dtype", "name"),
    [
        ("avx2", DType.float32, "avx2"),
        ("avx2", DType.bfloat16, "avx2-bfloat16"),
        ("torch", DType.bfloat16, "torch"),
    ],
)
def test_kernels_that_round_say_so(
    monkeypatch: pytest.MonkeyPatch, instructions: str, dtype: DType, name: str
) -> None:
    monkeypatch.setattr(library, "select", lambda _: None)
    monkeypatch.setattr(library, "kernel_name", lambda: instructions)
    assert kernel_label(RuntimeConfig(dtype=dtype)) == name


def test_rounds_drafted_in_8_bits_have_a_name_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Native rounds draft in int8 and torch's in the target's format: other tokens for a seed."""
    monkeypatch.setattr(library, "select", lambda _: None)
    (tmp_path / "layer").write_text("layer")
    path = str(tmp_path / "layer")
    names = set()
    for kernels in ("native-avx2", "torch"):
        monkeypatch.setattr(library, "kernel_name", lambda kernels=kernels: kernels)
        for dtype in DrafterDType:
            drafter = RecurrentDrafterConfig(path=path, dtype=dtype)
            names.add(run_name(config(tmp_path, drafter=drafter)))
    assert len(names) == 2 * len(DrafterDType)


def test_what_becomes_of_counted_transitions_counts(tmp_path: Path) -> None:
    """Points of a sweep over it had one name, and the first one's tokens were taken for all."""
    (tmp_path / "counts").mkdir()
    (tmp_path / "counts" / "counts.npz").write_text("counted")

    def name(**given: Any) -> str:
        transitions = TransitionsConfig(path=str(tmp_path / "counts"), **given)
        viterbi = ViterbiConfig(transitions=transitions)
        return run_name(config(tmp_path, system=System.multi_token, viterbi=viterbi))

    usual = name()
    assert name(smoothing=Smoothing.unigram, strength=1.0, workers=5) == usual
    others = {name(smoothing=Smoothing.add), name(smoothing=Smoothing.none), name(strength=0.5)}
    assert len(others | {usual}) == 4
