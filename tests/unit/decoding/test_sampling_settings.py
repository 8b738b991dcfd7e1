"""Settings of a run: what is given, what a checkpoint says, and what neither says."""

import dataclasses
from typing import Any

import pytest
import toy_lists

from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.decoding.sampling.settings import completed, sampler_of
from speculative_tts.schema.decode import Repetition, SamplingConfig

NEEDED = {
    "temperature": 0.5,
    "top_k": 7,
    "top_p": 0.75,
    "min_tokens_per_word": 1.5,
    "max_tokens_per_word": 9,
}
OPEN = {
    "repetition_penalty": 1.25,
    "end_when_likeliest": True,
    "text_rows": True,
    "ras_window": 10,
    "ras_tau": 0.25,
}
UNSAID = {
    "repetition_penalty": 1.0,
    "end_when_likeliest": False,
    "text_rows": False,
    "ras_window": 0,
    "ras_tau": 0.1,
}
CURRENT, EARLIER = Repetition.current, Repetition.redraw_eos
NAMED = {"ras_variant": CURRENT, "sampler": None}


def test_a_checkpoint_says_all_that_is_not_given() -> None:
    said = completed(SamplingConfig(), NEEDED | OPEN)
    assert dataclasses.asdict(said) == NEEDED | OPEN | NAMED
    kinds = [float, int, float, float, float, float, bool, bool, int, float, Repetition, type(None)]
    assert [type(value) for value in dataclasses.astuple(said)] == kinds


def test_what_a_checkpoint_need_not_say_is_off() -> None:
    plain = completed(SamplingConfig(), dict(NEEDED))
    assert dataclasses.asdict(plain) == NEEDED | UNSAID | NAMED


@pytest.mark.parametrize("value", [0, 2])
def test_what_is_given_counts(value: int) -> None:
    """Zero and false too."""
    numbers = dict.fromkeys(NEEDED, float(value)) | {"top_k": value, "max_tokens_per_word": 30.0}
    given = {**numbers, **UNSAID, "end_when_likeliest": bool(value), "ras_window": 3 * value}
    given |= {"ras_tau": 0.5, "repetition_penalty": 3.0, "text_rows": bool(value)}
    found = completed(SamplingConfig(**given, ras_variant=EARLIER), NEEDED | OPEN)
    assert dataclasses.asdict(found) == given | NAMED | {"ras_variant": EARLIER}


@pytest.mark.parametrize("name", NEEDED)
def test_what_nobody_says_is_asked_for(name: str) -> None:
    rest = {key: value for key, value in NEEDED.items() if key != name}
    with pytest.raises(ValueError, match=rf"^sampling\.{name} is not set, nor in speech.json"):
        completed(SamplingConfig(), rest)


@pytest.mark.parametrize(
    ("least", "most", "message"),
    [
        (0.0, 0.0, "max_tokens_per_word 0 is not above 0; give a number such as 28"),
        (0.0, float("nan"), "max_tokens_per_word nan is not above 0"),
        (-0.5, 3.0, "min_tokens_per_word -0.5 is below 0; use 0 for no minimum"),
        (float("nan"), 3.0, "min_tokens_per_word nan is below 0"),
        (3.5, 3.0, "min_tokens_per_word 3.5 is above max_tokens_per_word 3; lower the one or"),
    ],
)
def test_lengths_that_cannot_be(least: float, most: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        toy_lists.settings(min_tokens_per_word=least, max_tokens_per_word=most)


def test_lengths_at_their_limits() -> None:
    assert toy_lists.settings(min_tokens_per_word=3.0, max_tokens_per_word=3.0)
    assert toy_lists.settings(min_tokens_per_word=0.0, max_tokens_per_word=0.25)


class Barring:
    """A layout that bars an id beside its stop ids."""

    barred_ids = (4, 6)


SHAPE: dict[str, Any] = {"temperature": 0.5, "top_k": 7, "top_p": 0.75}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Sampler(0.5, 7, 0.75)),
        ({"end_when_likeliest": True}, Sampler(0.5, 7, 0.75, end_when_likeliest=True)),
        ({"repetition_penalty": 1.25}, RepetitionPenalty(0.5, 7, 0.75, 1.25)),
        ({"repetition_penalty": 0.5}, RepetitionPenalty(0.5, 7, 0.75, 0.5)),
        (
            {"repetition_penalty": 2.0, "end_when_likeliest": True},
            RepetitionPenalty(0.5, 7, 0.75, 2.0, end_when_likeliest=True),
        ),
        (
            {"ras_window": 1, "ras_tau": 0.25, "ras_variant": EARLIER},
            RepetitionAware(0.5, 7, 0.75, 1, 0.25, EARLIER),
        ),
    ],
)
def test_the_sampler_of_settings(changes: dict[str, Any], expected: Sampler) -> None:
    found = sampler_of(toy_lists.settings(**SHAPE, **changes), toy_lists.ToyLayout())  # type: ignore[arg-type]
    assert (type(found), found) == (type(expected), expected)


def test_ids_that_a_layout_bars_are_the_samplers() -> None:
    looks: SamplingConfig = toy_lists.settings(**SHAPE, ras_window=3)
    found = sampler_of(looks, Barring())  # type: ignore[arg-type]
    assert found == RepetitionAware(0.5, 7, 0.75, 3, 0.1, CURRENT, (4, 6))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"end_when_likeliest": True},
            r"^sampling.end_when_likeliest true does not go with ras_window 2; set the one to fal",
        ),
        (
            {"repetition_penalty": 1.5},
            r"^sampling.repetition_penalty 1.5 does not go with ras_window 2; set the one to 1",
        ),
    ],
)
def test_samplers_that_do_not_go_together(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sampler_of(toy_lists.settings(ras_window=2, **changes), toy_lists.ToyLayout())  # type: ignore[arg-type]
