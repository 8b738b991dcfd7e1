"""Every rule, and samplers that look back or end early, on many keyed utterances.

n = 20,000 utterances, a rule's fault is found in 6,000; 8 chi-squares of false-alarm rate 1e-9 each
(see `test_exactness`), and 12 more of the one-step law of VALL-E's ending beside the official
procedure. Seeds are fixed. Rules are parametrised by the registry, so that one without a case in
`rule_laws` fails.
"""

from collections import Counter

import pytest
import torch
from faults import AlwaysAccept
from goodness import chi_square, mismatches
from reference import autoregressive_law, speculative_law
from rule_laws import CASES, shipped_rules
from stubs import speculative
from test_exactness import DRAFT, LAW, MANY, ONE, SAMPLER, STOPS, TARGET

from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule
from speculative_tts.models.families.valle import official

FEW = 6_000


def decoded(rule: AcceptanceRule, number: int = len(MANY)) -> list[Outcome]:
    return speculative(TARGET, DRAFT, rule, STOPS, SAMPLER, 3, MANY[:number])


@pytest.mark.parametrize("name", shipped_rules())
def test_speculation_follows_the_rules_law_and_no_other(name: str) -> None:
    """As controls not the target's, but of the exact rule, and faults are found: everything passes;
    another residual.
    """
    for case in CASES[name]:
        law = speculative_law(TARGET, DRAFT, case.masses, 3, SAMPLER, STOPS, ONE)
        found = decoded(case.rule)
        assert mismatches(found, law) == []
        assert bool(mismatches(found, LAW)) is (name != "exact")
        for fault in (AlwaysAccept, case.fault):
            assert mismatches(decoded(fault(case.rule), FEW), law), fault.__name__


NUCLEUS = {"temperature": 0.8, "top_k": 5, "top_p": 0.8}
LIKELIEST = {"temperature": 0.9, "top_k": 4}
ENDS = Sampler(**LIKELIEST, end_when_likeliest=True)
# A sampler, and the plain one that it must be told from.
SAMPLERS = {
    "repetition aware": (RepetitionAware(**NUCLEUS, window=3, tau=0.3), Sampler(**NUCLEUS)),
    "official ending": (ENDS, Sampler(**LIKELIEST)),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_speculation_follows_the_samplers_law_and_no_other(name: str) -> None:
    """As controls the plain sampler's law, and what the plain sampler says."""
    sampler, plain = SAMPLERS[name]
    law, other = (autoregressive_law(TARGET, one, STOPS, ONE) for one in (sampler, plain))
    found = speculative(TARGET, DRAFT, Tolerance(0.0), STOPS, sampler, 3, MANY)
    assert mismatches(found, law) == []
    assert mismatches(found, other)
    assert mismatches(speculative(TARGET, DRAFT, Tolerance(0.0), STOPS, plain, 3, MANY), law)


@pytest.mark.parametrize("seed", range(12))
def test_the_law_is_that_of_the_official_procedure(seed: int) -> None:
    """The official loop draws, and ends when the draw or the argmax is the end."""
    vocab, end = 7, 6
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(vocab, generator=generator)
    if seed % 3 == 0:
        logits[end] = logits.max() + 0.1
    probs = official.filtered(logits / 0.9, 4).softmax(-1)
    draws = torch.multinomial(probs, len(MANY), replacement=True, generator=generator)
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
