"""Listening tests with known truth: what is there is found, what is not is not, as often as said.

Bounds are binomial with a false-alarm rate of 1e-9 for the whole of each test.
"""

import numpy as np
import pytest
from scipy import stats
from unit.listening.test_crossed import drawn

from speculative_tts.listening.crossed import Spread, power_of

ALARM = 1e-9
SPREAD = Spread(1.2, 0.3, 0.3)
TESTS = 200


def found(mean: float, spread: Spread, raters: int, utterances: int, seed: int) -> tuple[int, int]:
    """Of `TESTS` tests: how many have p < 0.05, and how many intervals hold the truth."""
    rng = np.random.default_rng(seed)
    alarms = held = 0
    for _ in range(TESTS):
        one = drawn(rng, spread, raters, 10, utterances, mean).estimate(300, 0)
        assert one.p is not None
        assert one.low is not None
        assert one.high is not None
        alarms += one.p < 0.05
        held += one.low <= mean <= one.high
    return alarms, held


@pytest.mark.parametrize("spread", [SPREAD, Spread(1.2, 0.0, 0.0)])
def test_no_difference_is_seldom_found(spread: Spread) -> None:
    """The stated rate is at most 8 %: beyond the bound it is not."""
    alarms, held = found(0.0, spread, 30, 60, 0)
    assert alarms <= stats.binom.ppf(1 - ALARM, TESTS, 0.08)
    assert held >= stats.binom.ppf(ALARM, TESTS, 0.92)


def test_ratings_as_if_independent_raise_false_alarms() -> None:
    """A control: the t-test over all ratings, which papers print, is beyond that bound."""
    rng, alarms = np.random.default_rng(1), 0
    for _ in range(TESTS):
        one = drawn(rng, Spread(0.8, 0.8, 0.8), 30, 10, 30, 0.0)
        alarms += float(stats.ttest_1samp(one.sums[one.counts > 0], 0.0).pvalue) < 0.05
    assert alarms > stats.binom.ppf(1 - ALARM, TESTS, 0.08)


def test_a_difference_is_found_as_often_as_foretold() -> None:
    """Power is reckoned with Student's t, found by the bootstrap: they may differ by 7 points."""
    alarms, held = found(0.3, SPREAD, 30, 60, 2)
    foretold = power_of(0.3, SPREAD, 30, 10, 60)
    assert 0.6 < foretold < 0.97
    assert stats.binom.ppf(ALARM, TESTS, foretold - 0.07) <= alarms
    assert alarms <= stats.binom.ppf(1 - ALARM, TESTS, min(1.0, foretold + 0.07))
    assert held >= stats.binom.ppf(ALARM, TESTS, 0.92)
