"""Heads, chooser and facts of a configuration, each part loaded by a stand-in."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from speculative_tts.caches.transitions import LogTransitions
from speculative_tts.decoding.blocks import build as module
from speculative_tts.decoding.blocks.build import (
    MultiToken,
    Target,
    build_multi_token,
    left_out,
)
from speculative_tts.decoding.blocks.choosers import IndependentHeads
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.slots import Slots
from speculative_tts.schema.common import CheckpointConfig, CodecConfig
from speculative_tts.schema.decode import Candidates, HeadsConfig, PathMode, ViterbiConfig

VOCAB, STOP = 4, 3


def keep(key: Any, path: str, load: Any) -> Any:
    """Load anew; what stays loaded is tested by `test_kept`."""
    return load()


class Builder:
    """Stand-ins for what is loaded, and what they were asked for."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("heads", "target", "codec"):
            (folder / name).mkdir()
            (folder / name / "content").write_text(name)
        self.folder, self.loaded = folder, list[Any]()
        self.vocab = VOCAB
        monkeypatch.setattr(module, "load_heads", self.load)
        monkeypatch.setattr(module, "transitions", self.transitions)
        monkeypatch.setattr(module, "content_hash", lambda path: f"hash of {path.name}")
        self.target = Target(
            CheckpointConfig(name="t", path=str(folder / "target")),
            CodecConfig(name="c", path=str(folder / "codec")),
            STOP,
            (STOP,),
            VOCAB,
            torch.float32,
            torch.device("cpu"),
        )

    def load(self, *given: Any, **named: Any) -> Any:
        self.loaded.append((given, named))
        return SimpleNamespace(n=given[1] or 8, vocab_size=self.vocab)

    def transitions(self, *given: Any) -> tuple[LogTransitions, dict[str, Any]]:
        self.loaded.append(given)
        row = np.log(np.full(STOP, 1 / STOP, np.float32))
        nothing = np.zeros(0, np.int32), np.zeros(0, np.float32)
        offsets = np.zeros(STOP + 1, np.int64)
        return LogTransitions(offsets, *nothing, row, np.zeros(STOP, np.float32)), {"bigrams": 7}

    def build(self, viterbi: ViterbiConfig, sampler: Sampler, n: int | None = None) -> MultiToken:
        config = HeadsConfig(path=str(self.folder / "heads"), n=n)
        return build_multi_token(config, viterbi, self.target, sampler, keep)


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builder:
    return Builder(tmp_path, monkeypatch)


NONE = ViterbiConfig(mode=PathMode.none)
KIND = {"dtype": torch.float32, "device": torch.device("cpu")}


@pytest.mark.parametrize("n", [None, 3])
def test_heads_that_are_sampled_alone(parts: Builder, n: int | None) -> None:
    sampler = Sampler(0.5)
    found = parts.build(NONE, sampler, n)
    assert isinstance(found.choose, IndependentHeads)
    assert vars(found.choose) == vars(IndependentHeads(sampler))
    assert found.facts == {"heads": "hash of heads", "n": n or 8}
    folder = parts.folder
    assert parts.loaded == [((folder / "heads", n), {"target": folder / "target", **KIND})]


def test_heads_that_cannot_be(parts: Builder) -> None:
    parts.vocab = 9
    with pytest.raises(
        ValueError, match=r"predict 9 ids, the target emits 4; set sampling.text_rows=false"
    ):
        parts.build(NONE, Sampler())
    with pytest.raises(ValueError, match=r"^heads.path is not set; train heads with sst-train-h"):
        build_multi_token(HeadsConfig(), NONE, parts.target, Sampler(), keep)


def test_a_path_through_codes_of_several_books_is_refused(parts: Builder) -> None:
    """Each head by itself is not: its sampler knows what a position may hold."""
    sampler = Sampler(slots=Slots((1, 2)))
    parts.build(NONE, sampler)
    with pytest.raises(
        ValueError, match=r"sample joins codes of one .* has 2; give viterbi\.mode=n"
    ):
        parts.build(ViterbiConfig(), sampler)


@pytest.mark.parametrize(
    ("viterbi", "sampler", "temperature"),
    [
        (ViterbiConfig(), Sampler(0.5), 0.5),
        (ViterbiConfig(mode=PathMode.best, top_k=2, boundary=True), Sampler(0), 1.0),
        (
            ViterbiConfig(candidates=Candidates.perhead, temperature=0.25, weight=2.0),
            Sampler(0.5, end_when_likeliest=True),
            0.25,
        ),
        (ViterbiConfig(temperature=0.0), Sampler(0.5), 0.0),
    ],
)
def test_paths_are_searched_as_configured(
    parts: Builder,
    viterbi: ViterbiConfig,
    sampler: Sampler,
    temperature: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: dict[str, Any] = {}

    def noting(name: str) -> Any:
        return lambda *given, **named: made.setdefault(name, (given, named))

    for name in ("PathSearch", "ViterbiHeads"):
        monkeypatch.setattr(module, name, noting(name))
    found = parts.build(viterbi, sampler)
    assert found.facts["transitions"] == {"bigrams": 7}
    assert set(found.facts) == {"heads", "n", "transitions"}
    (table, top_k), search = made["PathSearch"]
    assert (top_k, search) == (
        viterbi.top_k,
        {"union": viterbi.candidates is Candidates.union, "boundary": viterbi.boundary},
    )
    assert table.size == STOP
    (_, stop), chosen = made["ViterbiHeads"]
    assert stop.is_stop.tolist() == [False, False, False, True]
    assert stop.minimum.tolist() == [0]
    assert chosen == {
        "temperature": temperature,
        "sample": viterbi.mode is PathMode.sample,
        "end_when_likeliest": sampler.end_when_likeliest,
    }
    codec = ("c", parts.folder / "codec")
    assert parts.loaded[1:] == [(viterbi.transitions, codec, STOP)]


@pytest.mark.parametrize("sampler", [Sampler(1.0, 0, 0.5), RepetitionAware(window=2)])
def test_what_a_path_search_leaves_out_is_told(
    sampler: Sampler,
) -> None:
    told = left_out(ViterbiConfig(), sampler)
    assert told is not None
    assert "applies temperature and viterbi.top_k only" in told
    assert left_out(NONE, sampler) is None
    assert left_out(ViterbiConfig(), Sampler(0.5)) is None
