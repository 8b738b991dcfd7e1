"""The stand-in for the official `llm.inference`, called as the official pipeline calls it."""

import contextlib
import inspect
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from cosyvoice_folders import write_official

from speculative_tts.checks.chi_square import two_samples
from speculative_tts.decoding.loops.speculation import Rounds
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.integrations.cosyvoice import UNUSED, Inference
from speculative_tts.models.families import cosyvoice

pytestmark = pytest.mark.usefixtures("kernels")

CODES = 40


class OfficialLM:
    """The signature of `Qwen2LM.inference` (commit ace7c47)."""

    def inference(  # noqa: PLR0917
        self,
        text: torch.Tensor,
        text_len: torch.Tensor,
        prompt_text: torch.Tensor,
        prompt_text_len: torch.Tensor,
        prompt_speech_token: torch.Tensor,
        prompt_speech_token_len: torch.Tensor,
        embedding: torch.Tensor,
        sampling: int = 25,
        max_token_text_ratio: float = 20,
        min_token_text_ratio: float = 2,
        uuid: str = "",
    ) -> Iterator[int]:
        raise NotImplementedError


class OfficialModel:
    """`CosyVoice2Model.llm_job`: the call, and tokens taken one by one."""

    def __init__(self) -> None:
        self.llm = OfficialLM()

    def job(self, text: list[int], prompt_text: list[int], speech: list[int]) -> Iterator[int]:
        row, before, voice = (
            torch.tensor([x], dtype=torch.int32) for x in (text, prompt_text, speech)
        )
        yield from self.llm.inference(
            text=row,
            text_len=torch.tensor([row.shape[1]], dtype=torch.int32),
            prompt_text=before,
            prompt_text_len=torch.tensor([before.shape[1]], dtype=torch.int32),
            prompt_speech_token=voice,
            prompt_speech_token_len=torch.tensor([voice.shape[1]], dtype=torch.int32),
            embedding=torch.zeros(0, 192),
            uuid="0f",
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("official") / "model"
    write_official(path, CODES)
    return path


def with_draft(folder: Path, **options: object) -> Inference:
    alone = Inference.load(folder, **options)  # type: ignore[arg-type]
    draft = cosyvoice.with_layers(alone.target, [0, 3])
    return Inference(alone.target, draft, Tolerance(0.0), alone.sampler)


def test_it_takes_the_place_of_the_official_generator(folder: Path) -> None:
    model = OfficialModel()
    official = {*inspect.signature(OfficialLM().inference).parameters}
    ours = inspect.signature(with_draft(folder))
    assert official <= UNUSED | {*ours.parameters}
    model.llm.inference = with_draft(folder)  # type: ignore[method-assign]
    tokens = list(model.job([5, 6, 7], [8, 9], [1, 2, 3]))
    assert all(isinstance(token, int) and 0 <= token < CODES for token in tokens)
    assert len(tokens) <= 60
    assert tokens != list(model.job([5, 6, 7], [8, 9], [1, 2, 3]))  # drawn anew


def test_tokens_come_as_they_are_accepted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones are there before the last are made."""
    made = replace(with_draft(folder), seed=4)  # of random weights not every seed speaks so long
    model = OfficialModel()
    model.llm.inference = made  # type: ignore[method-assign]
    seen: list[int] = []
    step = Rounds.step
    monkeypatch.setattr(Rounds, "step", lambda loop: (seen.append(0), step(loop)))
    job = model.job([5] * 12, [], [])
    next(job)
    early = len(seen)
    rest = list(job)
    assert early == 0
    assert len(rest) > 3
    assert len(seen) > 1


def test_with_and_without_a_draft_lengths_and_tokens_agree(folder: Path) -> None:
    """Two samples of 150 utterances each; chi-squares of false-alarm rate 1e-9."""
    fast, alone = with_draft(folder), Inference.load(folder, seed=1)
    samples = []
    for inference in (fast, alone):
        model = OfficialModel()
        model.llm.inference = inference  # type: ignore[method-assign]
        samples.append([list(islice(model.job([5], [], [7]), 4)) for _ in range(150)])
    first, second = (np.array([s[0] if s else -1 for s in own]) for own in samples)
    statistic, bound = two_samples(first, second)
    assert statistic < bound
    pairs = (np.array([s[0] * 100 + s[1] if len(s) > 1 else -1 for s in own]) for own in samples)
    statistic, bound = two_samples(*pairs)
    assert statistic < bound


def test_text_in_pieces(folder: Path) -> None:
    made = with_draft(folder)
    empty = torch.zeros(1, 0, dtype=torch.int32)
    pieces = (torch.tensor([[n]]) for n in range(20))
    tokens = made.bistream(pieces, prompt_text=empty, prompt_speech_token=empty)
    found: list[int] = []
    with contextlib.suppress(ValueError):  # random weights may say a stop id without meaning there
        found.extend(tokens)
    assert found
    assert all(0 <= token < CODES for token in found)


def spoken(made: Inference, *, streamed: bool) -> Iterator[int]:
    """A sentence, given whole or in two pieces."""
    empty = torch.zeros(1, 0, dtype=torch.int32)
    if streamed:
        pieces = (torch.tensor([[5] * 6]) for _ in range(2))
        return made.bistream(pieces, prompt_text=empty, prompt_speech_token=empty)
    return made(torch.tensor([[5] * 12]), prompt_text=empty, prompt_speech_token=empty)


@pytest.mark.parametrize("streamed", [False, True])
def test_the_official_fp16_does_not_reach_in(folder: Path, *, streamed: bool) -> None:
    """It is an autocast around the call: products of another dtype than the cache's."""
    plain = [next(spoken(Inference.load(folder, seed=4), streamed=streamed))]
    made = spoken(Inference.load(folder, seed=4), streamed=streamed)
    with torch.autocast("cpu", torch.bfloat16):
        found = [next(made)]
        product = torch.ones(2, 2) @ torch.ones(2, 2)
        with contextlib.suppress(ValueError, StopIteration):
            next(made)
    assert found == plain
    assert product.dtype is torch.bfloat16  # the caller's own work keeps it


def test_an_argument_that_is_not_official_is_refused(folder: Path) -> None:
    empty = torch.zeros(1, 0, dtype=torch.int32)
    with pytest.raises(TypeError, match="unknown arguments: max_ratio"):
        next(with_draft(folder)(empty, prompt_text=empty, prompt_speech_token=empty, max_ratio=3))


def test_nothing_to_say_gives_nothing(folder: Path) -> None:
    model = OfficialModel()
    model.llm.inference = with_draft(folder)  # type: ignore[method-assign]
    assert list(model.job([], [1], [])) == []


def test_other_folders_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is no CosyVoice folder; looked for llm\.pt"):
        Inference.load(tmp_path)
    write_official(tmp_path / "other", 41)
    with pytest.raises(ValueError, match="has other speech ids"):
        Inference.load(folder, tmp_path / "other")
