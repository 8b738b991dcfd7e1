"""Intervals and tests for ratios of sums.

A corpus figure such as WER is f(sum of columns) over units (utterances, or speakers as clusters of
utterances). The bootstrap draws units with replacement and takes f of the drawn sums; the paired
bootstrap draws the same units for both systems. Seeds of an utterance are averaged before anything
is drawn (`average_seeds`), for they are not independent.
"""

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Statistic = Callable[[Array], Array]  # sums of columns [..., columns] -> figure [...]

DRAWS = 10_000
LEVEL = 0.95
LEAST = 10  # units without which nothing is said of chance: four give 24 % false alarms at 0.05


@dataclass(frozen=True)
class Interval:
    """A figure with its percentile interval; None where undefined (no data, too few units)."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0


@dataclass(frozen=True)
class Difference:
    """Figure of b minus that of a, its interval, and the two-sided p of `paired_bootstrap`."""

    value: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    n: int = 0


def ratio(sums: Array) -> Array:
    """First column over second; NaN where the second is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sums[..., 1] != 0, sums[..., 0] / sums[..., 1], np.nan)


def average_seeds(keys: Sequence[Hashable], columns: Array) -> tuple[list[Hashable], Array]:
    """Mean columns of rows with the same key (the utterance id): one row a key, in order."""
    order = list(dict.fromkeys(keys))
    return order, _group_sums(keys, columns) / _group_sums(keys, np.ones((len(columns), 1)))


def cluster_sums(columns: Array, clusters: Sequence[Hashable] | None) -> Array:
    """Columns summed within clusters [clusters, columns]; None: every row is its own."""
    return columns if clusters is None else _group_sums(clusters, columns)


def bootstrap(
    columns: Array,
    statistic: Statistic = ratio,
    clusters: Sequence[Hashable] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Interval:
    """A figure over rows `columns` [rows, columns] with a percentile interval.

    n is the number of rows; fewer than `LEAST` units get no interval. Draws in which the figure is
    not defined (nothing was drafted) are left out.
    """
    units = cluster_sums(columns, clusters)
    value = _finite(statistic(columns.sum(axis=0)))
    if value is None or len(units) < LEAST or draws < 1:
        return Interval(value, n=len(columns))
    drawn = statistic(_resampled(len(units), draws, seed) @ units)
    low, high = _percentiles(drawn)
    return Interval(value, low, high, len(columns))


def paired_bootstrap(
    a: Array,
    b: Array,
    statistic: Statistic = ratio,
    clusters: Sequence[Hashable] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Difference:
    """Figure of b minus figure of a over the same rows, both [rows, columns].

    p is twice the smaller share of draws on either side of 0, each counted with one draw more
    (never 0, at most 1): the interval excludes 0 where p is below 0.05. Few units make it
    optimistic: with no true difference p < 0.05 came up in 8.2 % of 2,000 experiments with 10
    utterances, 6.3 % with 20, 5.5 % with 40, 5.2 % with 60. Below `LEAST` units there is neither.
    """
    if a.shape != b.shape:
        raise ValueError(
            f"paired rows differ: {a.shape} and {b.shape}; pair them by utterance first"
        )
    units_a, units_b = cluster_sums(a, clusters), cluster_sums(b, clusters)
    value = _finite(statistic(b.sum(axis=0)) - statistic(a.sum(axis=0)))
    if value is None or len(units_a) < LEAST or draws < 1:
        return Difference(value, n=len(a))
    counts = _resampled(len(units_a), draws, seed)
    drawn = statistic(counts @ units_b) - statistic(counts @ units_a)
    low, high = _percentiles(drawn)
    return Difference(value, low, high, _two_sided(drawn), len(a))


def paired_t(a: Array, b: Array) -> float | None:
    """Two-sided p of the paired t-test over per-utterance values; None below two pairs."""
    from scipy import stats

    def test(difference: Array) -> float:
        if np.ptp(difference) <= 1e-9 * float(np.abs(difference).max()):
            return 0.0  # where scipy would warn of values that are all alike
        return float(stats.ttest_1samp(difference, 0.0).pvalue)

    return _paired(a, b, test)


def wilcoxon(a: Array, b: Array) -> float | None:
    """Two-sided p of Wilcoxon's signed-rank test over per-utterance values, ties left out."""
    from scipy import stats

    return _paired(a, b, lambda gap: float(stats.wilcoxon(gap[gap != 0]).pvalue))


def welch(a: Array, b: Array) -> float | None:
    """Two-sided p of Welch's t-test: seeds of one system against seeds of another."""
    from scipy import stats

    if min(len(a), len(b)) < 2:
        return None
    gap = abs(float(a.mean() - b.mean()))
    own, other = float(a.var(ddof=1)) / len(a), float(b.var(ddof=1)) / len(b)
    rounding = 1e-9 * float(max(np.abs(a).max(), np.abs(b).max()))
    if own + other <= rounding**2:  # scipy would warn of seeds that are all alike
        return 1.0 if gap <= rounding else 0.0
    freedom = (own + other) ** 2 / (own**2 / (len(a) - 1) + other**2 / (len(b) - 1))
    return float(2 * stats.t.sf(gap / (own + other) ** 0.5, freedom))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given: several systems against one baseline."""
    order = np.argsort(p_values)
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.minimum(1.0, np.maximum.accumulate(np.asarray(p_values, float)[order] * factors))
    result = np.empty(len(p_values))
    result[order] = adjusted
    return [float(p) for p in result]


def standard_deviation(values: Sequence[float]) -> float | None:
    """Sample standard deviation (ddof 1) of the figures of several seeds; None below two."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def _paired(a: Array, b: Array, test: Callable[[Array], float]) -> float | None:
    difference = b - a
    if len(difference) < 2:
        return None
    return test(difference) if difference.any() else 1.0


def _group_sums(keys: Sequence[Hashable], columns: Array) -> Array:
    index = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    sums = np.zeros((len(index), columns.shape[1]))
    np.add.at(sums, [index[key] for key in keys], columns)
    return sums


@functools.lru_cache(maxsize=4)
def _resampled(units: int, draws: int, seed: int) -> Array:
    """How often each unit is drawn, shape [draws, units]; rows sum to `units`."""
    drawn = np.random.default_rng(seed).integers(0, units, size=(draws, units))
    flat = (drawn + units * np.arange(draws)[:, None]).ravel()
    return np.bincount(flat, minlength=draws * units).reshape(draws, units).astype(np.float64)


def _percentiles(drawn: Array) -> tuple[float | None, float | None]:
    defined = drawn[np.isfinite(drawn)]
    if not len(defined):
        return None, None
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _two_sided(drawn: Array) -> float | None:
    defined = drawn[np.isfinite(drawn)]
    if not len(defined):
        return None
    side = min(int(np.sum(defined <= 0)), int(np.sum(defined >= 0)))
    return min(1.0, 2.0 * (side + 1) / (len(defined) + 1))


def _finite(value: Array) -> float | None:
    return float(value) if np.isfinite(value) else None
