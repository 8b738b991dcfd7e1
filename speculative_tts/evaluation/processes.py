"""Intervals of speeds over processes and utterances.

What a process gets of memory and caches it keeps, so a speed varies between processes as well as
between utterances, and an interval over the utterances of one process says nothing of the next. The
logarithm of a speed is taken to have an effect of each process and one of each utterance, both
random. Every process times the same utterances, so the variance of each effect follows from figures
with one process, or one utterance, left out (the jackknife); Student's t, with the degrees of
freedom of both (Satterthwaite, 1946), bounds the sum. Chance of a single cell is counted in both,
which makes the interval a little wide.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from speculative_tts.evaluation.metric import Metric
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.statistics import LEAST, LEVEL, Array, Measure

ENOUGH = 5  # processes from which a speed is a result
PERCENTILE = 95  # of waiting times
PERCENTILE_NEEDS = 60  # utterances: all of n lie below the true one with probability 0.95^n


@dataclass(frozen=True)
class Cells:
    """Columns [cells, columns] of one system, and the process and utterance of each."""

    processes: Sequence[Hashable]
    utterances: Sequence[Hashable]
    columns: Array

    @property
    def number(self) -> int:
        """Processes."""
        return len(set(self.processes))

    def of(self, utterances: set[Hashable]) -> "Cells":
        """Return those of some utterances."""
        kept = [place for place, one in enumerate(self.utterances) if one in utterances]
        processes = [self.processes[place] for place in kept]
        return Cells(processes, [self.utterances[place] for place in kept], self.columns[kept])


def cells(rows: Sequence[ScoreRow], metric: Metric, unit: Callable[[ScoreRow], Hashable]) -> Cells:
    """Return a cell for each process and utterance that the metric has; a seed has its own.

    `unit` is what chance draws of a row: its utterance, or its speaker.
    """
    found = [
        (key, unit(row), values)
        for row in rows
        for key, one in _by_process(row, metric)
        if None not in (values := metric.columns(one))
    ]
    processes, utterances, columns = zip(*found, strict=True) if found else ((), (), ())
    return Cells(processes, utterances, np.array(columns, dtype=np.float64, ndmin=2))


def _by_process(row: ScoreRow, metric: Metric) -> Iterator[tuple[Hashable, ScoreRow]]:
    """Yield a row with what each process measured; one where the metric reads nothing of that."""
    clocks = row["clocks"] or ()
    measured = dict.fromkeys(name for clock in clocks for name in clock)
    without = replace(row, columns={**row.columns, **measured})
    if len(clocks) < 2 or None not in metric.columns(without):
        yield (row.seed, 0), row
        return
    for number, clock in enumerate(clocks):
        yield (row.seed, number), replace(row, columns={**row.columns, **clock})


def interval(given: Cells, metric: Metric) -> Measure:
    """Return a speed with its interval over processes and utterances; none below two processes."""
    value = float(metric.statistic(given.columns.sum(axis=0)))
    parts = [_left_out(given, names, metric) for names in (given.processes, given.utterances)]
    units, processes = len(parts[1]), len(parts[0])
    if not np.isfinite(value) or units < LEAST or processes < 2:
        return Measure(value if np.isfinite(value) else None, n=units, processes=processes)
    there, back = _scale(value, *parts)
    low, high = _around(there(np.array(value)), [_variance(there(part)) for part in parts])
    return Measure(value, float(back(low)), float(back(high)), units, processes=processes)


def over_processes(given: Cells, metric: Metric) -> Measure:
    """Return a speed of these very utterances with its interval over processes alone."""
    value = float(metric.statistic(given.columns.sum(axis=0)))
    units, processes = len(set(given.utterances)), given.number
    if not np.isfinite(value) or processes < 2:
        return Measure(value if np.isfinite(value) else None, n=units, processes=processes)
    left_out = _left_out(given, given.processes, metric)
    there, back = _scale(value, left_out)
    low, high = _around(there(np.array(value)), [_variance(there(left_out))])
    return Measure(value, float(back(low)), float(back(high)), units, processes=processes)


def percentile(waits: Array, draws: int = 2_000) -> Measure:
    """Return the `PERCENTILE` of waits [processes, utterances], the mean over the processes.

    As in `interval` processes and utterances have effects on the logarithm, and Student's t bounds
    the sum. The processes' variance is that of their own percentiles. For the utterances', where
    the jackknife fails, a bootstrap draws utterances, each with its waits in all processes. There
    is no figure of fewer than `PERCENTILE_NEEDS` utterances, and no interval of one process.
    """
    processes, utterances = waits.shape
    if utterances < PERCENTILE_NEEDS:
        return Measure(None, n=utterances, processes=processes)
    own = _percentile(waits)
    value = float(np.exp(own.mean()))
    if processes < 2:
        return Measure(value, n=utterances, processes=processes)
    drawn = np.random.default_rng(0).integers(0, utterances, size=(draws, utterances))
    of_utterances = _percentile(waits[:, drawn]).mean(axis=0).var(ddof=1)
    of_processes = own.var(ddof=1) / processes
    variances = [(float(of_processes), processes - 1), (float(of_utterances), utterances - 1)]
    low, high = _around(own.mean(), variances)
    return Measure(value, float(np.exp(low)), float(np.exp(high)), utterances, processes=processes)


def _percentile(waits: Array) -> Array:
    """Return logarithms of the percentiles of the last axis, as often too low as too high."""
    return np.log(np.percentile(waits, PERCENTILE, axis=-1, method="median_unbiased"))


def difference(a: Cells, b: Cells, metric: Metric) -> Measure:
    """Return the speed of b minus that of a, of utterances that both have.

    Both timed the same utterances, each in processes of its own.
    """
    from scipy import stats

    both = set(a.utterances) & set(b.utterances)
    a, b = a.of(both), b.of(both)
    values = [float(metric.statistic(one.columns.sum(axis=0))) for one in (a, b)]
    units, processes = len(both), min(a.number, b.number)
    value = values[1] - values[0]
    if not np.isfinite(value) or units < LEAST or processes < 2:
        return Measure(value if np.isfinite(value) else None, n=units)
    apart = [_variance(_left_out(one, one.processes, metric)) for one in (a, b)]
    gaps = _left_out(b, b.utterances, metric) - _left_out(a, a.utterances, metric)
    variances = [*apart, _variance(gaps)]
    low, high = _around(np.array(value), variances)
    error, freedom = _error(variances)
    p = float(2 * stats.t.sf(abs(value) / error, freedom)) if error > 0 else float(value == 0)
    return Measure(value, float(low), float(high), units, p)


def _left_out(given: Cells, names: Sequence[Hashable], metric: Metric) -> Array:
    """Return figures with each process, or each utterance, left out, in order of names."""
    order = {name: place for place, name in enumerate(sorted(set(names), key=repr))}
    sums = np.zeros((len(order), given.columns.shape[1]))
    np.add.at(sums, [order[name] for name in names], given.columns)
    return metric.statistic(given.columns.sum(axis=0) - sums)


def _variance(left_out: Array) -> tuple[float, int]:
    """Return the jackknife's variance and its degrees of freedom."""
    units = len(left_out)
    return float((units - 1) / units * np.sum((left_out - left_out.mean()) ** 2)), units - 1


def _error(variances: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Return the standard error of a sum of effects, and Satterthwaite's degrees of freedom."""
    total = sum(variance for variance, _ in variances)
    spread = sum(variance**2 / freedom for variance, freedom in variances)
    return total**0.5, total**2 / spread if spread > 0 else float(variances[-1][1])


def _around(value: Array, variances: Sequence[tuple[float, int]]) -> tuple[Array, Array]:
    from scipy import stats

    error, freedom = _error(variances)
    reach = error * float(stats.t.ppf((1 + LEVEL) / 2, freedom))
    return value - reach, value + reach


def _scale(value: float, *parts: Array) -> tuple[np.ufunc, np.ufunc]:
    """Return logarithm and exponential where all figures are above 0, else no change."""
    if value > 0 and all((part > 0).all() for part in parts):
        return np.log, np.exp
    return np.positive, np.positive
