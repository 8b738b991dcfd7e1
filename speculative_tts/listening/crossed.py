"""Estimate means of ratings, where both the raters and the utterances are samples.

Ratings of one rater, and ratings of one utterance, resemble each other; taken as independent they
give intervals that are too short. The standard error is the two-way one of Cameron, Gelbach and
Miller (2011); its quantiles come from a bootstrap that draws raters and utterances (Owen, 2007, the
pigeonhole bootstrap) and measures each draw's mean in that draw's own standard error.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from speculative_tts.evaluation.statistics import LEAST, LEVEL, Measure

Array = npt.NDArray[np.float64]
BATCH = 500  # draws at a time


@dataclass(frozen=True)
class Spread:
    """Standard deviations of a rating: of a single one, between raters, between utterances."""

    noise: float
    raters: float
    utterances: float

    def error(self, raters: float, samples: float, utterances: float) -> float:
        """Return the standard error of the mean of `raters` who judge `samples` utterances each."""
        return float(
            (
                self.raters**2 / raters
                + self.utterances**2 / utterances
                + self.noise**2 / (raters * samples)
            )
            ** 0.5
        )


@dataclass(frozen=True)
class CrossedRatings:
    """Sums, counts and sums of squares of ratings, each [raters, utterances]."""

    sums: Array
    counts: Array
    squares: Array

    @property
    def n(self) -> int:
        """Number of ratings."""
        return int(self.counts.sum())

    def estimate(self, draws: int, seed: int) -> Measure:
        """Estimate the mean with its interval, and the two-sided p of no difference from 0.

        There is neither below `LEAST` raters or utterances. With no true difference p < 0.05 came
        up in 2 to 8 % of 600 experiments of each of seven kinds (10 to 30 raters, 12 to 300
        utterances, no to strong differences between them).
        """
        raters, utterances = self.counts.shape
        if not self.n:
            return Measure(None, n=0)
        means, errors = self._estimates(np.ones((1, raters)), np.ones((1, utterances)))
        value, error = float(means[0]), float(errors[0])
        if min(raters, utterances) < LEAST or draws < 1 or error == 0:
            return Measure(value, n=self.n)
        distance = self._distances(value, draws, seed)
        reach = error * float(np.quantile(distance, LEVEL))
        p = (1 + int(np.sum(distance >= abs(value) / error))) / (len(distance) + 1)
        return Measure(value, value - reach, value + reach, self.n, p)

    def spread(self) -> Spread:
        """Estimate the standard deviations by moments; a negative variance counts as 0."""
        n, left = self.counts.sum(), self.sums - self.counts * self.sums.sum() / self.counts.sum()
        by_rater, by_utterance = self.counts.sum(axis=1), self.counts.sum(axis=0)
        cells = float(np.sum(left**2))

        def between(sums: Array, sizes: Array) -> float:
            pairs = float(np.sum(sizes**2) - n)
            return max(0.0, (float(np.sum(sums**2)) - cells) / pairs) if pairs > 0 else 0.0

        raters = between(left.sum(axis=1), by_rater)
        utterances = between(left.sum(axis=0), by_utterance)
        noise = max(0.0, cells / float(n) - raters - utterances)
        return Spread(noise**0.5, raters**0.5, utterances**0.5)

    def _distances(self, value: float, draws: int, seed: int) -> Array:
        """Return the distances of the draws' means from `value`, in their own standard errors."""
        rng = np.random.default_rng(seed)
        raters, utterances = self.counts.shape
        distances = []
        for start in range(0, draws, BATCH):
            size = min(BATCH, draws - start)
            drawn = [
                rng.multinomial(n, np.full(n, 1 / n), size).astype(np.float64)
                for n in (raters, utterances)
            ]
            means, errors = self._estimates(drawn[0], drawn[1])
            known = errors > 0  # a draw without a rated cell has no mean and no error
            distances.append(np.abs(means[known] - value) / errors[known])
        return np.concatenate(distances)

    def _estimates(self, raters: Array, utterances: Array) -> tuple[Array, Array]:
        """Return means and standard errors of draws, given the counts of raters and utterances."""

        def total(cells: Array) -> Array:
            weighted: Array = np.sum((raters @ cells) * utterances, axis=1)
            return weighted

        n = np.maximum(total(self.counts), 1)
        means = total(self.sums) / n
        by_rater = utterances @ self.sums.T - means[:, None] * (utterances @ self.counts.T)
        by_utterance = raters @ self.sums - means[:, None] * (raters @ self.counts)
        alone = total(self.squares) - 2 * means * total(self.sums) + means**2 * n
        both = np.sum(raters * by_rater**2, axis=1) + np.sum(utterances * by_utterance**2, axis=1)
        return means, np.sqrt(np.maximum(both - alone, np.maximum(alone, 0))) / n


def cross(values: Iterable[tuple[str, str, float]]) -> CrossedRatings:
    """Sum up ratings given as (rater, utterance, value)."""
    rows = list(values)
    raters = {key: i for i, key in enumerate(dict.fromkeys(row[0] for row in rows))}
    utterances = {key: i for i, key in enumerate(dict.fromkeys(row[1] for row in rows))}
    sums, counts, squares = np.zeros((3, len(raters), len(utterances)))
    for rater, utterance, value in rows:
        place = raters[rater], utterances[utterance]
        sums[place] += value
        counts[place] += 1
        squares[place] += value**2
    return CrossedRatings(sums, counts, squares)


def power(difference: float, error: float, freedom: float) -> float:
    """Return the power to detect a difference, two-sided, given its standard error.

    `freedom` are the error's degrees of freedom. Student's t is shifted by the difference, because
    the noncentral t underflows.
    """
    from scipy import stats

    if error == 0:
        return 1.0
    reach, shift = stats.t.ppf((1 + LEVEL) / 2, freedom), difference / error
    return float(stats.t.sf(reach - shift, freedom) + stats.t.cdf(-reach - shift, freedom))


def power_of(
    difference: float, spread: Spread, raters: int, samples: int, utterances: int | None = None
) -> float:
    """Return a test's power to detect a difference; without `utterances` each rater has others."""
    pool = utterances or raters * samples
    error = spread.error(raters, samples, pool)
    return power(difference, error, max(1, min(raters, pool) - 1))


def raters_for(
    difference: float,
    spread: Spread,
    samples: int,
    utterances: int | None = None,
    wanted: float = 0.8,
    most: int = 1000,
) -> int | None:
    """Return the fewest raters that detect a difference with power `wanted`; None: above `most`."""
    if power_of(difference, spread, most, samples, utterances) < wanted:
        return None

    def found(raters: int) -> bool:
        return power_of(difference, spread, raters, samples, utterances) >= wanted

    return 2 + bisect_left(range(2, most), True, key=found)
