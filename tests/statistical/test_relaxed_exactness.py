"""The relaxed rules through the real loop on many keyed utterances.

n = 20,000 utterances; 8 chi-squares of false-alarm rate 1e-9 each (see `test_exactness`). Seeds are
fixed.
"""

import pytest
from faults import AlwaysAccept, NoResidual, Wrapped
from goodness import mismatches
from reference import autoregressive_law, speculative_law
from relaxed_laws import CASES, Case
from stubs import speculative
from test_exactness import DRAFT, MANY, ONE, SAMPLER, STOPS, TARGET
from torch import Tensor

from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule

EXACT = autoregressive_law(TARGET, SAMPLER, STOPS, ONE)


class Difference(Wrapped):
    """After a rejection the token comes from max(q - p, 0), whichever token was rejected."""

    def residual(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:
        return (target_probs - draft_probs).clamp(min=0)


def decoded(rule: AcceptanceRule) -> list[Outcome]:
    return speculative(TARGET, DRAFT, rule, STOPS, SAMPLER, 3, MANY)


@pytest.mark.parametrize("name", CASES)
def test_speculation_follows_the_rules_law_and_no_other(name: str) -> None:
    """As controls not the target's, and faults are found: everything passes; another residual."""
    case: Case = CASES[name]
    law = speculative_law(TARGET, DRAFT, case.masses, 3, SAMPLER, STOPS, ONE)
    found = decoded(case.rule)
    assert mismatches(found, law) == []
    assert mismatches(found, EXACT)
    other = NoResidual if name == "dynamic" else Difference
    for fault in (AlwaysAccept, other):
        assert mismatches(decoded(fault(case.rule)), law), fault.__name__
