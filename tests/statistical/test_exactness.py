"""The real loops on many keyed utterances, against exact laws of whole outputs, with every sampling
transform on.

n = 20,000 utterances in one ragged batch. Pearson's chi-square on each of the first four tokens and
four pairs of them (cells of fewer than 25 expected pooled); each of the 8 comparisons fails by
chance with probability 1e-9, a test with less than 1e-8. Seeds are fixed, so a test that passed
here fails only after a change. `test_rule_exactness` has every rule, `test_negative_controls` shows
that the same comparison finds faults: the least of them by 1.9 times its bound, so that it takes as
many utterances (8,000 overlook two).
"""

import pytest
from goodness import mismatches
from reference import autoregressive_law
from stubs import Markov, request, speculative

from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler

N = 20_000
STOPS = (2, 5)
SAMPLER = Sampler(temperature=0.8, top_k=5, top_p=0.95)
TARGET = Markov.random(6, seed=3, scale=1.0)
DRAFT = TARGET.near(4, distance=0.8)
ONE = request(minimum=2, maximum=5)
MANY = [request(f"utterance {row}", minimum=2, maximum=5) for row in range(N)]
LAW = autoregressive_law(TARGET, SAMPLER, STOPS, ONE)  # of whole outputs of the target alone


@pytest.mark.parametrize("lookahead", [1, 2, 3])
def test_speculation_follows_the_targets_law(lookahead: int) -> None:
    """n = 20,000, 8 chi-squares of false-alarm rate 1e-9 each; beta 0."""
    found = speculative(TARGET, DRAFT, Tolerance(0.0), STOPS, SAMPLER, lookahead, MANY)
    counts = [outcome.counts for outcome in found]
    rate = sum(one.accepted for one in counts) / sum(one.drafted for one in counts)
    assert 0.3 < rate < 0.9  # both branches are well used
    assert mismatches(found, LAW) == []


def test_the_baseline_follows_the_targets_law() -> None:
    """n = 20,000, 8 chi-squares of false-alarm rate 1e-9 each."""
    found = autoregressive(TARGET, STOPS, SAMPLER, MANY)
    assert mismatches(found, LAW) == []


def test_acceptance_is_the_overlap_of_the_laws() -> None:
    """Share of rounds whose first drafted token passes, against 1 - TV averaged over what the first
    token may be.

    n = 20,000 binomial draws; the bound of 6.2 standard deviations has a false-alarm rate below
    1e-9.
    """
    found = speculative(
        TARGET,
        DRAFT,
        Tolerance(0.0),
        STOPS,
        SAMPLER,
        1,
        [request(row.id, minimum=2, maximum=3) for row in MANY],
    )
    first = autoregressive_law(TARGET, SAMPLER, STOPS, request(minimum=1, maximum=1))
    overlap = 0.0
    for (token,), mass in first.items():
        after = request(minimum=1, maximum=1, start=(1, token))
        q, p = (autoregressive_law(model, SAMPLER, STOPS, after) for model in (TARGET, DRAFT))
        overlap += mass * sum(min(q.get(x, 0.0), p.get(x, 0.0)) for x in q.keys() | p.keys())
    rate = sum(o.counts.accepted_per_position[0] for o in found) / N
    assert abs(rate - overlap) < 6.2 * (overlap * (1 - overlap) / N) ** 0.5
