"""Intervals and tests for ratios of sums.

A corpus figure such as WER is f(sum of columns) over units (utterances, or speakers as clusters of
utterances). The bootstrap draws units with replacement and takes f of the drawn sums; the paired
bootstrap draws the same units for both systems. Seeds of an utterance are averaged before anything
is drawn (`average_seeds`), for they are not independent.
"""

import functools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Statistic = Callable[[Array], Array]  # sums of columns [..., columns] -> figure [...]

DRAWS = 10_000
LEVEL = 0.95
TINY = 1e-9  # what is smaller beside a figure is rounding
SCALED = ("value", "low", "high", "sd")  # parts of a measure that have its unit
LEAST = 10  # units without which nothing is said of chance: four give 24 % false alarms at 0.05


@dataclass(frozen=True)
class Measure:
    """A figure, of a system or a difference between two, and what is known of its chance.

    The figure is None where it is undefined (no data), the interval where there are too few units.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    p: float | None = None  # of a difference, two-sided
    sd: float | None = None  # over seeds
    processes: int | None = None  # that a speed was measured in; None of what no clock measures
    tests: Mapping[str, float | None] = field(default_factory=dict, hash=False)  # p of others

    def written(self) -> dict[str, Any]:
        """Return it as JSON values, `processes` where a clock measured."""
        clocked = {} if self.processes is None else {"processes": self.processes}
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n} | clocked

    def scaled(self, factor: float) -> "Measure":
        """Return the measure in another unit."""
        known = {name: number for name in SCALED if (number := getattr(self, name)) is not None}
        return replace(self, **{name: number * factor for name, number in known.items()})

    def over(self, base: "Measure") -> "Measure":
        """Return the ratio; its interval is what both allow, none where an end is not above 0."""
        if self.value is None or not base.value:
            return NOTHING
        value = self.value / base.value
        known = [one.processes for one in (self, base) if one.processes is not None]
        few = min(known, default=None)
        ends = (self.low, self.high, base.low, base.high)
        if any(end is None or end <= 0 for end in ends):
            return Measure(value, n=self.n, processes=few)
        own_low, own_high, base_low, base_high = map(float, ends)  # type: ignore[arg-type]
        low, high = own_low / base_high, own_high / base_low
        return Measure(value, low, high, n=self.n, processes=few)


NOTHING = Measure(None)


def ratio(sums: Array) -> Array:
    """Return the first column over the second; NaN where the second is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sums[..., 1] != 0, sums[..., 0] / sums[..., 1], np.nan)


def average_seeds(keys: Sequence[Hashable], columns: Array) -> tuple[list[Hashable], Array]:
    """Average rows with the same key (the utterance id): one row per key, in order."""
    order = list(dict.fromkeys(keys))
    return order, _group_sums(keys, columns) / _group_sums(keys, np.ones((len(columns), 1)))


def cluster_sums(columns: Array, clusters: Sequence[Hashable] | None) -> Array:
    """Sum columns within clusters [clusters, columns]; None: every row is its own cluster."""
    return columns if clusters is None else _group_sums(clusters, columns)


def bootstrap(
    columns: Array,
    statistic: Statistic = ratio,
    clusters: Sequence[Hashable] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Measure:
    """Estimate a figure over rows `columns` [rows, columns] with a BCa interval (Efron, 1987).

    n is the number of rows; fewer than `LEAST` units get no interval. Draws in which the figure is
    not defined (nothing was drafted) are left out. Its quantiles are widened as Student's are
    (Hesterberg, 2015): percentiles of the draws held the true rate in 89 to 92 % of 600 experiments
    with 10 utterances of 20 % word errors, these in 95 %. Where most utterances have no error no
    interval helps: with 5 % word errors 10 utterances gave 80 %, 40 gave 92 %.
    """
    units = cluster_sums(columns, clusters)
    value = _finite(statistic(columns.sum(axis=0)))
    if value is None or len(units) < LEAST or draws < 1:
        return Measure(value, n=len(columns))
    drawn = statistic(resampled(len(units), draws, seed) @ units)
    drawn = drawn[np.isfinite(drawn)]
    if not len(drawn):
        return Measure(value, n=len(columns))
    levels = _bca_levels(value, drawn, statistic(units.sum(axis=0) - units))
    low, high = np.quantile(drawn, levels)
    return Measure(value, float(low), float(high), len(columns))


def paired_bootstrap(
    a: Array,
    b: Array,
    statistic: Statistic = ratio,
    clusters: Sequence[Hashable] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Measure:
    """Estimate the figure of b minus that of a over the same rows, both [rows, columns].

    The symmetric studentised bootstrap: each draw's distance from the figure is measured in that
    draw's own standard error. p is the share of draws, and one more, that lie as far out as 0 does,
    so the interval excludes 0 where p is below 0.05; but where the systems differ in k units only p
    is at least 2 / 2^k, with which all k signs agree by chance. With no true difference p < 0.05
    came up in 0 to 5 % of 800 experiments of each kind (10, 16 and 40 utterances of 3, 10 and 30 %
    word errors; percentiles of the draws: up to 7.4 %). Below `LEAST` units there is neither, and
    no interval where one draw in twenty holds no unit in which the systems differ: it has no end.
    """
    if a.shape != b.shape:
        raise ValueError(
            f"paired rows differ: {a.shape} and {b.shape}; pair them by utterance first"
        )
    units = np.concatenate([cluster_sums(a, clusters), cluster_sums(b, clusters)], axis=1)

    def difference(sums: Array) -> Array:
        first, second = np.split(sums, 2, axis=-1)
        return statistic(second) - statistic(first)

    value = _finite(difference(units.sum(axis=0)))
    if value is None or len(units) < LEAST or draws < 1:
        return Measure(value, n=len(a))
    every = np.ones((1, len(units)))
    error = float(_standard_errors(difference, every, units)[0])
    first, second = (statistic(columns) for columns in np.split(units, 2, axis=-1))
    neither = np.isnan(first) & np.isnan(second)  # has a figure there
    apart = int(np.sum((first != second) & ~neither))
    least = min(1.0, 2.0 ** (1 - apart))
    if not error > TINY * abs(value):  # all units differ alike
        return Measure(value, value, value, len(a), least)
    counts = resampled(len(units), draws, seed)
    errors = np.maximum(_standard_errors(difference, counts, units), TINY * error)
    alike = float(np.mean(errors == TINY * error))  # share of draws without a unit that differs
    distance = np.abs(difference(counts @ units) - value) / errors
    distance = distance[np.isfinite(distance)]
    p = (1 + int(np.sum(distance >= abs(value) / error))) / (len(distance) + 1)
    if alike >= 1 - LEVEL:
        return Measure(value, p=max(p, least), n=len(a))
    reach = error * float(np.quantile(distance, LEVEL))
    return Measure(value, value - reach, value + reach, len(a), max(p, least))


def paired_t(a: Array, b: Array) -> float | None:
    """Return the two-sided p of the paired t-test over utterances; None below two pairs."""
    from scipy import stats

    def test(difference: Array) -> float:
        if np.ptp(difference) <= 1e-9 * float(np.abs(difference).max()):
            return 2.0 ** (1 - len(difference))  # all alike: so many signs agree by chance
        return float(stats.ttest_1samp(difference, 0.0).pvalue)

    return _paired(a, b, test)


def wilcoxon(a: Array, b: Array) -> float | None:
    """Return the two-sided p of Wilcoxon's signed-rank test over utterances, without ties."""
    from scipy import stats

    return _paired(a, b, lambda gap: float(stats.wilcoxon(gap[gap != 0]).pvalue))


def welch(a: Array, b: Array) -> float | None:
    """Return the two-sided p of Welch's t-test between the seeds of two systems."""
    from scipy import stats

    if min(len(a), len(b)) < 2:
        return None
    gap = abs(float(a.mean() - b.mean()))
    own, other = float(a.var(ddof=1)) / len(a), float(b.var(ddof=1)) / len(b)
    rounding = 1e-9 * float(max(np.abs(a).max(), np.abs(b).max()))
    if own + other <= rounding**2:  # scipy would warn of seeds that are all alike
        return 1.0 if gap <= rounding else 2 / math.comb(len(a) + len(b), len(a))
    freedom = (own + other) ** 2 / (own**2 / (len(a) - 1) + other**2 / (len(b) - 1))
    return float(2 * stats.t.sf(gap / (own + other) ** 0.5, freedom))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in order, for several systems against one baseline."""
    order = np.argsort(p_values)
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.minimum(1.0, np.maximum.accumulate(np.asarray(p_values)[order] * factors))
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
def resampled(units: int, draws: int, seed: int) -> Array:
    """Draw how often each unit occurs, shape [draws, units]; rows sum to `units`."""
    drawn = np.random.default_rng(seed).integers(0, units, size=(draws, units))
    flat = (drawn + units * np.arange(draws)[:, None]).ravel()
    return np.bincount(flat, minlength=draws * units).reshape(draws, units).astype(np.float64)


def _bca_levels(value: float, drawn: Array, without: Array) -> list[float]:
    """Return the quantiles of the draws that bound the interval.

    Bias (draws below the figure) and acceleration (skewness of `without`, the jackknife) move them.
    Half of the draws that equal the figure count as below it; averages of seeds are rounded, so
    what differs by rounding alone is equal, whatever order the processor adds them in.
    """
    from scipy.special import ndtr, ndtri, stdtrit

    units, normal = len(without), (1 + LEVEL) / 2
    wide = float(stdtrit(units - 1, normal)) * (units / (units - 1)) ** 0.5
    equal = np.isclose(drawn, value, rtol=TINY, atol=0)
    below = float(np.mean((drawn < value) & ~equal) + np.mean(equal) / 2)
    bias = float(ndtri(np.clip(below, 0.5 / len(drawn), 1 - 0.5 / len(drawn))))
    left = without[np.isfinite(without)].mean() - without[np.isfinite(without)]
    spread = float(np.sum(left**2))
    skew = float(np.sum(left**3)) / (6 * spread**1.5) if spread > 0 else 0.0
    levels = []
    for end in (bias - wide, bias + wide):
        scale = 1 - skew * end  # not positive: beyond all draws
        levels.append(float(ndtr(bias + end / scale)) if scale > 0 else float(end > 0))
    return levels


def _standard_errors(statistic: Statistic, counts: Array, units: Array) -> Array:
    """Estimate the figure's standard error in each draw [draws, units], by its derivatives."""
    sums, n = counts @ units, len(units)
    slopes = np.empty_like(sums)
    for column, step in enumerate(1e-4 * np.abs(units).mean(axis=0) + 1e-9):
        shift = np.eye(units.shape[1])[column] * step
        slopes[:, column] = (statistic(sums + shift) - statistic(sums - shift)) / (2 * step)
    influence = slopes @ units.T
    influence -= np.sum(counts * influence, axis=1, keepdims=True) / n
    variance: Array = np.sum(counts * influence**2, axis=1) * n / (n - 1)
    return np.sqrt(variance)


def _finite(value: Array) -> float | None:
    return float(value) if np.isfinite(value) else None
