"""Samplers that look back, against two draws one after the other and against transformers."""

import pytest
import torch
from reference import probabilities
from torch import Tensor
from transformers import RepetitionPenaltyLogitsProcessor

from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule
from speculative_tts.schema.decode import Repetition

CPU = torch.device("cpu")
NEVER = StopRule.build((), 9, [0], CPU)


def law(sampler: RepetitionAware, logits: Tensor, history: list[int]) -> Tensor:
    """The law of the token behind `history`, float64 [vocab]."""
    row, position = torch.tensor([history or [0]]), torch.tensor([[len(history)]])
    return sampler(logits[None, None], row, position, NEVER)[0, 0]


@pytest.mark.parametrize("variant", Repetition)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"top_p": 0.8, "top_k": 5},
        {"top_p": 0.3, "temperature": 0.7},
        {"window": 4, "tau": 0.5, "top_k": 3},
    ],
)
def test_the_law_is_that_of_two_draws(variant: Repetition, options: dict[str, float]) -> None:
    """To 1e-12 in float64, on 50 random laws and histories each; it sums to 1."""
    sampler = RepetitionAware(**options, variant=variant)
    generator = torch.Generator().manual_seed(0)
    for length in range(50):
        logits = 2 * torch.randn(9, generator=generator, dtype=torch.float64)
        history = torch.randint(0, 9, (length % 14,), generator=generator).tolist()
        found = law(sampler, logits, history)
        two_draws = probabilities(logits.tolist(), sampler, tuple(history))
        expected = torch.tensor(two_draws, dtype=torch.float64)
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
        assert float(found.sum()) == pytest.approx(1, abs=1e-12)


def test_a_certain_token_is_drawn_again_without_it() -> None:
    """In float32 1 - p(y) is 0 here: the second law must not come from a division by it."""
    logits = torch.tensor([40.0, 1.0, 0.0, -1.0, 0, 0, 0, 0, 0])
    found = law(RepetitionAware(top_p=0.8), logits, [0])
    others = logits[1:].softmax(-1)
    assert float(found[0]) == 0
    torch.testing.assert_close(found[1:], others)


def test_the_only_possible_token_stays() -> None:
    logits = torch.full((9,), float("-inf"))
    logits[3] = 0
    assert law(RepetitionAware(), logits, [3]).tolist() == [0.0, 0, 0, 1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("options", "kept"), [({"top_k": 3}, [0, 1, 2]), ({"top_p": 0.5}, [0, 1])])
def test_of_equal_tokens_the_lower_ids_are_kept(
    options: dict[str, float], kept: list[int], dtype: torch.dtype
) -> None:
    """Those before a token may come to top_p exactly: then it is not wanted."""
    logits = torch.tensor([0.0] * 4 + [-torch.inf] * 5, dtype=dtype)
    found = law(RepetitionAware(**options), logits, [])
    assert found.nonzero()[:, 0].tolist() == kept


@pytest.mark.parametrize(
    ("variant", "barred", "expected"),
    [
        (Repetition.current, (6,), {6}),
        (Repetition.redraw_eos, (6,), {6}),
        (Repetition.redraw_stops, (6,), {6, 7, 8}),
        (Repetition.current, None, {6, 7, 8}),
    ],
)
def test_what_is_barred_before_the_minimum(
    variant: Repetition, barred: tuple[int, ...] | None, expected: set[int]
) -> None:
    stop = StopRule.build((6, 7, 8), 9, [5], CPU)
    sampler = RepetitionAware(variant=variant, barred=barred)
    logits = torch.zeros(1, 2, 9)
    early, late = sampler(logits, torch.full((1, 8), -1), torch.tensor([[4, 5]]), stop)[0]
    assert set((early == 0).nonzero()[:, 0].tolist()) == expected
    assert (late > 0).all()
    assert float(early.sum()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"window": 0}, "ras_window 0 is below 1"), ({"tau": 0.0}, "ras_tau 0.0 is not above 0")],
)
def test_bad_numbers_are_named(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RepetitionAware(**options)


def test_each_position_sees_the_prompt_and_the_drafts_before_it() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, 11, generator=generator)
    history = torch.randint(0, 11, (2, 9), generator=generator)
    positions = torch.tensor([[4, 5, 6], [0, 1, 2]])
    prompts = [(1, 2), ()]
    stop = StopRule.build((10,), 11, [0, 0], CPU, prompts)
    got = RepetitionPenalty(0.8, 0, 1.0, 1.3)(logits, history, positions, stop)
    processor = RepetitionPenaltyLogitsProcessor(1.3)
    for row in range(2):
        for new in range(3):
            ids = [*prompts[row], *history[row, : int(positions[row, new])].tolist()]
            scores = logits[row, new][None]
            if ids:
                scores = processor(torch.tensor([ids]), scores)
            torch.testing.assert_close(got[row, new], (scores[0] / 0.8).softmax(-1))


def test_a_penalty_of_one_is_none_and_zero_is_refused() -> None:
    logits, history = torch.randn(1, 1, 5), torch.zeros(1, 4, dtype=torch.int64)
    stop = StopRule.build((4,), 5, [0], CPU)
    at = torch.tensor([[2]])
    same = RepetitionPenalty(0.7, 3, 0.9, 1.0)(logits, history, at, stop)
    torch.testing.assert_close(same, Sampler(0.7, 3, 0.9)(logits, history, at, stop))
    with pytest.raises(ValueError, match=r"repetition_penalty 0 is not above 0; use 1"):
        RepetitionPenalty(penalty=0)
