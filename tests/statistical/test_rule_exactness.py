"""Every rule through the real loop on many keyed utterances, against the law its paper gives.

n = 20,000 utterances, a fault is found in 6,000; 8 chi-squares of false-alarm rate 1e-9 each (see
`test_exactness`). Seeds are fixed. Parametrised by the registry, so that a rule without a case in
`rule_laws` fails.
"""

import pytest
from faults import AlwaysAccept
from goodness import mismatches
from reference import speculative_law
from rule_laws import CASES, shipped_rules
from stubs import speculative
from test_exactness import DRAFT, LAW, MANY, ONE, SAMPLER, STOPS, TARGET

from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule

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
