"""Means over raters and utterances, their spread, and what a test can find."""

import numpy as np
import pytest

from speculative_tts.listening.crossed import CrossedRatings, Spread, cross, power_of, raters_for


def drawn(
    rng: np.random.Generator,
    spread: Spread,
    raters: int,
    samples: int,
    utterances: int,
    mean: float,
) -> CrossedRatings:
    """Differences as a test of this size would give them."""
    of_rater = rng.normal(0, spread.raters, raters)
    of_utterance = rng.normal(0, spread.utterances, utterances)
    places = [(i, (i * samples + k) % utterances) for i in range(raters) for k in range(samples)]
    return cross(
        (str(i), str(j), mean + of_rater[i] + of_utterance[j] + rng.normal(0, spread.noise))
        for i, j in places
    )


def test_the_mean_is_that_of_the_values() -> None:
    one = cross([("a", "u", 1.0), ("a", "v", 2.0), ("b", "v", 6.0), ("b", "v", 3.0)])
    found = one.estimate(100, 0)
    assert (found.value, found.n) == (3.0, 4)
    assert found.low is None  # two raters
    assert cross([]).estimate(100, 0).value is None


def test_nothing_differs() -> None:
    rows = [(f"r{i}", f"u{j}", 4.0) for i in range(12) for j in range(12)]
    found = cross(rows).estimate(200, 0)
    assert (found.value, found.low, found.p) == (4.0, None, None)


def test_leaning_raters_widen_the_interval() -> None:
    """Taken as independent, 300 ratings of 30 raters who each lean their own way look too good."""
    rng = np.random.default_rng(0)
    one = drawn(rng, Spread(0.5, 1.0, 0.0), 30, 10, 300, 3.5)
    found = one.estimate(2000, 0)
    assert found.low is not None
    assert found.high is not None
    naive = 1.96 * float(np.sqrt(one.squares.sum() / one.n - (found.value or 0) ** 2)) / one.n**0.5
    assert (found.high - found.low) / 2 > 2 * naive


def test_the_spread_is_found() -> None:
    rng = np.random.default_rng(1)
    true = Spread(1.2, 0.5, 0.4)
    found = [drawn(rng, true, 60, 20, 60, 0.3).spread() for _ in range(40)]
    for name in ("noise", "raters", "utterances"):
        mean = float(np.mean([getattr(one, name) ** 2 for one in found]))
        assert mean == pytest.approx(getattr(true, name) ** 2, rel=0.15), name


def test_more_of_anything_finds_more() -> None:
    spread = Spread(1.2, 0.3, 0.3)
    plain = power_of(0.2, spread, 30, 10)
    assert plain < power_of(0.2, spread, 60, 10) < power_of(0.3, spread, 60, 10)
    assert plain < power_of(0.2, spread, 30, 20)
    assert power_of(0.2, spread, 30, 10, 12) < plain
    assert power_of(1e-9, spread, 30, 10) == pytest.approx(0.05, abs=1e-3)


def test_raters_for_is_the_least_that_does() -> None:
    spread = Spread(1.2, 0.3, 0.3)
    needed = raters_for(0.2, spread, 10)
    assert needed is not None
    assert power_of(0.2, spread, needed, 10) >= 0.8 > power_of(0.2, spread, needed - 1, 10)
    assert raters_for(0.2, spread, 10, utterances=10) is None  # ten sentences never tell
