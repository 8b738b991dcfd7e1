"""Heads as the drafter on many keyed utterances: the target's law, and faults that are found.

n = 20,000 utterances, chi-squares of the first four tokens, of pairs, and of three tokens together,
each with a false-alarm rate of 1e-9.
"""

from collections import Counter

import pytest
from goodness import chi_square, mismatches
from head_stubs import by_heads, choosers
from reference import Law, at, marginal
from test_exactness import LAW, MANY, SAMPLER, STOPS, TARGET

from speculative_tts.decoding.loops import speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.randomness import DRAFT

CHOOSERS = choosers(TARGET.vocab_size, STOPS, SAMPLER)
THREE = ((0, 1, 2), (1, 2, 3))


def found_wrong(outcomes: list[Outcome], law: Law) -> list[str]:
    """The comparisons that fail, those of three tokens included."""
    lines = mismatches(outcomes, law)
    for places in THREE:
        counts = Counter(at(outcome.tokens, places) for outcome in outcomes)
        statistic, bound = chi_square(counts, marginal(law, places))
        if statistic > bound:
            lines.append(f"tokens {places}: chi-square {statistic:.1f} > {bound:.1f}")
    return lines


@pytest.mark.parametrize("name", CHOOSERS)
def test_verified_heads_follow_the_targets_law(name: str) -> None:
    """10 comparisons of false-alarm rate 1e-9 each."""
    found = by_heads(TARGET, CHOOSERS[name], Tolerance(0.0), STOPS, SAMPLER, 3, MANY)
    assert 0.03 < sum(o.counts.accepted for o in found) / sum(o.counts.drafted for o in found) < 0.9
    assert found_wrong(found, LAW) == []


@pytest.mark.parametrize("name", ["independent", "drawn path, boundary"])
@pytest.mark.parametrize("fault", ["a tolerance", "acceptance reuses", "blocks reuse"])
def test_faults_are_found(name: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative controls: another rule; uniforms of another draw."""
    if fault == "acceptance reuses":
        monkeypatch.setattr(speculation, "ACCEPT", DRAFT)
    if fault == "blocks reuse":
        monkeypatch.setattr("speculative_tts.decoding.blocks.choosers.DRAFT", speculation.NEXT)
    rule = Tolerance(0.4 if fault == "a tolerance" else 0.0)
    found = by_heads(TARGET, CHOOSERS[name], rule, STOPS, SAMPLER, 3, MANY)
    assert found_wrong(found, LAW)
