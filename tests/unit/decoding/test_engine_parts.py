"""An engine by hand: what it asks of its models, what it decodes with, what it clocks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from toy_lists import N_CODES, RATE, SAMPLER, STOP, ToyCodec, ToyVoiceCodec, engine

from speculative_tts.decoding import engine as module
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.engine import ROWS, Engine, Spoken
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.decode import System

PROMPT = Prompt("one two three", "yes", torch.tensor([4, 2, 4]))
ROWS_OF_PROMPT = [0, 3, 3, 3, 5, 4, 2, 4]  # words by their lengths, codes


def speculating() -> Engine:
    """With a draft's speculation."""
    plain = engine()
    assert plain.draft is not None
    made = Speculation(
        plain.target, LMDrafter(plain.draft), Tolerance(0.0), SAMPLER, (STOP,), lookahead=2
    )
    return engine(speculation=made)


class Clock:
    """Each look at it is a second later than the one before by one more."""

    def __init__(self) -> None:
        self.looks, self.now = 0, 0.0

    def perf_counter(self) -> float:
        self.looks += 1
        self.now += self.looks
        return self.now


def test_a_request_is_what_each_model_reads() -> None:
    made = engine(draft=None).request("u", PROMPT, 5)
    assert (made.id, made.seed, made.draft_prompt) == ("u", 5, None)
    assert made.prompt[:, 0].tolist() == ROWS_OF_PROMPT
    assert (made.min_tokens, made.max_tokens) == (6, 15)  # the prompt has 8 positions
    assert (made.prompt_tokens, made.last_code) == ((4, 2, 4), 4)
    other = engine().request("u", PROMPT, 5)
    assert other.draft_prompt is not None
    assert other.draft_prompt[:, 0].tolist() == ROWS_OF_PROMPT
    assert engine().request("u", Prompt("one two"), 5).last_code is None


def test_each_system_decodes_by_its_model() -> None:
    made = speculating()
    requests = [made.request(f"u{n}", PROMPT, n) for n in range(4)]
    found = {
        system: made.decode(system, requests)
        for system in (System.target, System.draft, System.uncached, System.speculative)
    }
    tokens = {system: [one.tokens for one in of.outcomes] for system, of in found.items()}
    assert tokens[System.target] == tokens[System.uncached] != tokens[System.draft]
    assert made.draft is not None
    swapped = Engine(made.draft, made.codec, made.sampling).decode(System.target, requests)
    assert [one.tokens for one in swapped.outcomes] == tokens[System.draft]
    assert all(one.counts.rounds for one in found[System.speculative].outcomes)
    assert tokens[System.speculative] != tokens[System.target]
    for system, expected in tokens.items():
        if system is not System.uncached:
            streamed = {one.id: out.tokens for one, out in made.stream(system, requests, 3)}
            assert [streamed[one.id] for one in requests] == expected
    watched = made.split(requests[0], found[System.speculative].outcomes[0])
    assert sum(watched.positions) > 0
    assert len(watched.positions) == 2


@pytest.mark.parametrize(
    "system", [System.draft, System.speculative, System.multi_token, System.uncached_heads]
)
def test_a_system_without_its_parts_is_told(system: System) -> None:
    bare = engine(draft=None)
    requests = [bare.request("u", PROMPT, 0)]
    for call in (bare.decode, bare.stream):
        with pytest.raises(AssertionError, match=r"^built for another system"):
            call(system, requests)  # type: ignore[operator]


def test_instruments_belong_to_speculation() -> None:
    made = engine()
    with pytest.raises(AssertionError, match=r"^built for another system"):
        made.split(made.request("u", PROMPT, 0), Outcome([], stopped=True))


def test_a_stream_has_so_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are asked for, else on a CPU always as many."""
    asked: list[Any] = []
    made = engine()
    keep: Callable[..., Any] = lambda *given: asked.append(given) or iter(())  # noqa: E731
    monkeypatch.setattr(type(made.graphs), "stream", lambda _, *given: keep(*given))
    requests = [made.request("u", PROMPT, 0)]
    for size in (None, 3):
        assert list(made.stream(System.target, requests, size)) == []
    assert [(given[1], given[2]) for given in asked] == [(requests, ROWS), (requests, 3)]
    assert ROWS == 8


def test_a_batch_is_clocked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "time", Clock())
    said = [Outcome([1], stopped=False)]
    assert module.timed(torch.device("cpu"), lambda _: said) == module.Timed(said, 2.0)


def test_a_batch_says_when_its_first_tokens_were_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "time", Clock())
    made = engine()
    found = made.decode(System.target, [made.request("u", PROMPT, 0)])
    assert (found.prefill_seconds, found.seconds) == (2.0, 5.0)


class FlowCodec(ToyVoiceCodec):
    """Its flow takes half a second a code."""

    flow_seconds = 10.0

    def decode_as(self, codes: np.ndarray, prompt_codes: np.ndarray) -> np.ndarray:
        self.flow_seconds += len(codes) / 2
        return super().decode_as(codes, prompt_codes)


class Refiner:
    """Says the first layer backwards as the second."""

    n_layers = 2

    def __call__(self, prompt: Prompt, first: list[int]) -> torch.Tensor:
        assert prompt is PROMPT
        return torch.tensor([first, first[::-1]])


def test_audio_is_of_the_codes_and_its_parts_are_clocked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "time", Clock())
    said = Outcome([1, 5, STOP], stopped=True)
    plain = engine().audio(said, PROMPT)
    np.testing.assert_array_equal(plain.wave, np.repeat(np.float32([0.1, 0.5]), 4))
    assert (plain.codec_seconds, plain.flow_seconds, plain.nar_seconds) == (2.0, None, None)
    flowing = engine(FlowCodec()).audio(said, PROMPT)
    np.testing.assert_array_equal(flowing.wave, np.repeat(np.float32([4.1, 4.5]), 4))
    assert (flowing.codec_seconds, flowing.flow_seconds) == (4.0, 1.0)
    codec = ToyCodec()
    refined = engine(codec, refiner=Refiner()).audio(said, PROMPT)
    np.testing.assert_array_equal(codec.decoded[0], [[1, 5], [5, 1]])
    assert (refined.nar_seconds, refined.codec_seconds) == (6.0, 8.0)


def test_an_utterance_of_no_codes_is_silence() -> None:
    ended = engine().audio(Outcome([STOP], stopped=True), PROMPT)
    np.testing.assert_array_equal(ended.wave, np.zeros(RATE // 10, np.float32))
    assert engine().codes(Outcome([N_CODES - 1, 0, STOP], stopped=True)) == [N_CODES - 1, 0]
    assert Spoken(ended.wave, 0.0) == Spoken(ended.wave, 0.0, None, None)
