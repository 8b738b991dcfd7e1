"""Repetition penalty against transformers' processor, position by position."""

import pytest
import torch
from transformers import RepetitionPenaltyLogitsProcessor

from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule

CPU = torch.device("cpu")


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
