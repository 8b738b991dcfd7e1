"""Speculation where an end that is the likeliest token is certain (VALL-E's own ending).

n = 20,000 utterances; 8 chi-squares of false-alarm rate 1e-9 each (see `test_exactness`), and 12
more of the one-step law beside the official procedure. Seeds are fixed.
"""

from collections import Counter

import pytest
import torch
from goodness import chi_square, mismatches
from reference import autoregressive_law
from stubs import speculative
from test_exactness import DRAFT, MANY, ONE, STOPS, TARGET

from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule
from speculative_tts.models.families.valle import official

SHAPE = {"temperature": 0.9, "top_k": 4}
ENDS = Sampler(**SHAPE, end_when_likeliest=True)
PLAIN = Sampler(**SHAPE)
DRAWS = 20_000


def test_speculation_follows_the_law_of_the_official_ending_and_no_other() -> None:
    """The second half is a control: an end that only a draw can bring is told apart."""
    found = speculative(TARGET, DRAFT, Tolerance(0.0), STOPS, ENDS, 3, MANY)
    assert mismatches(found, autoregressive_law(TARGET, ENDS, STOPS, ONE)) == []
    assert mismatches(found, autoregressive_law(TARGET, PLAIN, STOPS, ONE))


def test_ending_the_target_alone_is_not_the_law() -> None:
    """Control: the target verified by another ending than the one that is asked for."""
    found = speculative(TARGET, DRAFT, Tolerance(0.0), STOPS, PLAIN, 3, MANY)
    assert mismatches(found, autoregressive_law(TARGET, ENDS, STOPS, ONE))


@pytest.mark.parametrize("seed", range(12))
def test_the_law_is_that_of_the_official_procedure(seed: int) -> None:
    """The official loop draws, and ends when the draw or the argmax is the end."""
    vocab, end = 7, 6
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(vocab, generator=generator)
    if seed % 3 == 0:
        logits[end] = logits.max() + 0.1
    probs = official.filtered(logits / 0.9, 4).softmax(-1)
    draws = torch.multinomial(probs, DRAWS, replacement=True, generator=generator)
    ends = (draws == end) | (logits.argmax() == end)
    outcomes = torch.where(ends, end, draws)
    stop = StopRule.build((end,), vocab, [0], torch.device("cpu"))
    zero = torch.zeros(1, 1, dtype=torch.int64)
    law = ENDS(logits[None, None], zero, zero, stop)[0, 0]
    assert float(law.sum()) == pytest.approx(1)
    statistic, bound = chi_square(
        Counter((token,) for token in outcomes.tolist()),
        {(token,): float(mass) for token, mass in enumerate(law) if mass},
    )
    assert statistic <= bound
