"""What stays loaded between the runs of a process, and how many rows fit into memory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from stubs import request

from speculative_tts.commands import decode
from speculative_tts.decoding import builder as parts
from speculative_tts.decoding.batch import Size
from speculative_tts.decoding.blocks import build as heads
from speculative_tts.decoding.loops import graphs
from speculative_tts.decoding.loops.graphs import LAWS_A_ROW, Graphs, LoopSpec, rows_that_fit
from speculative_tts.decoding.model_cache import ModelCache, folder_size
from speculative_tts.runs.sources import engine as sources
from tests.fake_models import FakeModels, write_fake_models


def test_the_longest_unused_leave() -> None:
    kept, loaded = ModelCache(room=10), list[str]()

    def get(name: str, size: int) -> str:
        return kept.get(name, size, lambda: loaded.append(name) or name)  # type: ignore[func-returns-value]

    assert [get(name, 4) for name in "ababa"] == list("ababa")
    assert loaded == ["a", "b"]
    get("c", 5)  # b was used before a
    assert kept.size == 9
    get("a", 4)
    assert loaded == ["a", "b", "c"]
    get("b", 4)
    assert kept.size <= 10
    get("large", 50)  # alone
    assert kept.size == 50
    get("a", 4)
    assert loaded == ["a", "b", "c", "b", "large", "a"]
    kept = ModelCache(room=8)
    assert [get(name, 4) for name in "abab"] == list("abab")
    assert (kept.size, loaded[-2:]) == (8, ["a", "b"])  # full, and not above


def test_without_room_the_one_that_is_used_stays() -> None:
    kept = ModelCache(room=0)
    assert [kept.get("x", 0, made) for made in (lambda: 1, lambda: 2)] == [1, 1]


def test_a_sweep_loads_once_and_other_weights_are_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By content: also from a copy elsewhere. Draft and target, whatever rules and seeds."""
    models = write_fake_models(tmp_path / "models", utterances=2)
    loaded: list[str] = []
    real = parts.load_speech_lm

    def load(config: parts.CheckpointConfig, **options: object) -> object:
        loaded.append(Path(config.path).name)
        return real(config, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(parts, "load_speech_lm", load)
    kept = ModelCache(1e9)
    monkeypatch.setattr(sources, "process_cache", lambda _: kept)

    def run(models: FakeModels, *settings: str) -> None:
        common = [*models.overrides, f"out={tmp_path / 'runs'}", "timing=0", *settings]
        assert decode.main(common) == 0

    run(models, "rule=tolerance", "rule.beta=0.1,0.2", "seed=0,1")
    run(models, "system=target,draft")
    assert sorted(loaded) == ["draft", "target"]
    (tmp_path / "models").rename(tmp_path / "moved")
    run(FakeModels(tmp_path / "moved"), "seed=5")
    assert sorted(loaded) == ["draft", "target"]
    other = write_fake_models(tmp_path / "other", utterances=2)
    for name in ("target", "draft"):
        file = other.root / name / "model.safetensors"
        save_file({key: 1.01 * value for key, value in load_file(file).items()}, file)
    run(other)
    assert sorted(loaded) == ["draft", "draft", "target", "target"]


def test_heads_and_transitions_are_loaded_once_a_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for each number of heads and each weight of transitions, whatever chooses among them."""
    loaded: list[str] = []

    def noting(name: str) -> Callable[..., object]:
        real = getattr(heads, name)
        return lambda *given, **named: loaded.append(name) or real(*given, **named)

    for name in ("load_heads", "log_transitions"):
        monkeypatch.setattr(heads, name, noting(name))
    kept = ModelCache(1e9)
    monkeypatch.setattr(sources, "process_cache", lambda _: kept)
    common = ["method=mtp", "limit=1", "timing=0", f"out={tmp_path}", "seed=0,1"]
    assert decode.main([*common, "viterbi.mode=none,best,sample", "heads.n=2"]) == 0
    assert sorted(loaded) == ["load_heads", "log_transitions"]
    assert decode.main([*common, "heads.n=2,3", "viterbi.weight=0.5"]) == 0
    assert sorted(loaded) == ["load_heads"] * 2 + ["log_transitions"] * 2


def test_size_and_rows_that_fit(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_bytes(b"12345")
    assert folder_size(tmp_path) == folder_size(tmp_path / "sub" / "a") == 5
    gib = 2**30
    assert graphs.rows_that_fit(10 * gib, 100 * gib) == 1
    assert 1 < graphs.rows_that_fit(10 * gib, gib // 4) < 40
    assert graphs.rows_that_fit(100 * gib, gib // 100) == graphs.MOST_ROWS


ROW, FREE, WIDE, SLACK = 4_000, 1_000_000, 50, 3


@pytest.mark.parametrize("captures", [False, True])
def test_as_many_rows_fit_as_a_loop_of_one_row_and_its_laws_tell(
    monkeypatch: pytest.MonkeyPatch, captures: bool
) -> None:
    """A loop is as large as it will be: with graphs a bucket."""
    taken, made = iter([700, 700 + ROW]), list[Size]()
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: next(taken))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (FREE, 4 * FREE))
    looping: LoopSpec[Any] = LoopSpec(made.append, SLACK, "key")
    asked = [request(f"u{n}") for n in range(3)]
    found = Graphs((lambda step: step) if captures else None).fitting(looping, asked, WIDE)
    laws = LAWS_A_ROW * 4 * WIDE * (SLACK + 1)  # float32
    laws *= 2 if captures else 1  # the graph's, and those of the turn before
    assert found == rows_that_fit(FREE, ROW + laws)
    size = Size.of(asked[:1], SLACK)
    assert made == [size.bucket() if captures else size]
