"""Compare two scored systems in pairs, over the utterances that both have.

Differences are b minus a, where a is the baseline. The paired bootstrap tests the corpus figure;
the paired t-test and Wilcoxon's test use per-utterance figures. Several run folders of a system are
its seeds and are averaged first. The only speed compared is the speedup over the baseline of the
same process: seconds of two runs also differ by what else their machine did. Welch's t-test and the
paired t-test over seeds use each seed's corpus figure: with three seeds they have little power.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from speculative_tts.evaluation import processes, statistics
from speculative_tts.evaluation.metric import Metric
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.statistics import Array, Measure
from speculative_tts.evaluation.summary import Bootstrap, read_scores, select, unit_of


@dataclass(frozen=True)
class Comparison(Measure):
    """A metric of b minus that of a over the n utterances of both, p by the paired bootstrap.

    `tests`: t, wilcoxon; holm is p corrected over the systems of `compare_all`; welch tests seeds
    of one system against seeds of the other, seeds is the paired t over those that both have.
    """

    a: float | None = None
    b: float | None = None

    def written(self) -> dict[str, Any]:
        """Return it as JSON values."""
        tests = {f"p_{name}": p for name, p in self.tests.items()}
        ends = {"difference": self.value, "low": self.low, "high": self.high}
        return {"a": self.a, "b": self.b, **ends, "n": self.n, "p": self.p, **tests}


def compare(
    a: Sequence[Path],
    b: Sequence[Path],
    metrics: Sequence[str] | None = None,
    how: Bootstrap | None = None,
) -> dict[str, Comparison]:
    """Compare scored run folders (seeds) of system b with those of baseline a, by metric.

    By default it compares the metrics declared `compared`. Raise ValueError for an unknown
    metric, or when no utterance was scored in both.
    """
    rows_a, rows_b = _scored(a), _scored(b)
    if not {row.id for row in rows_a} & {row.id for row in rows_b}:
        raise ValueError(f"{a[0]} and {b[0]} share no scored utterance; compare runs of one list")
    names = compared_metrics() if metrics is None else metrics
    for name in names:
        if name not in METRICS:
            raise ValueError(f"metric {name} is unknown; use one of {', '.join(METRICS)}")
    return {name: compare_rows(rows_a, rows_b, name, how or Bootstrap()) for name in names}


def compared_metrics() -> list[str]:
    """Return the metrics compared by default; of speed the speedup alone."""
    return [name for name, metric in METRICS.items() if metric.compared]


def compare_all(
    baseline: Sequence[Path],
    systems: Mapping[str, Sequence[Path]],
    metrics: Sequence[str] | None = None,
    how: Bootstrap | None = None,
) -> dict[str, dict[str, Comparison]]:
    """Compare several systems with one baseline; holm corrects each metric for their number."""
    results = {name: compare(baseline, folders, metrics, how) for name, folders in systems.items()}
    for metric in compared_metrics() if metrics is None else metrics:
        tested = {name: row[metric].p for name, row in results.items()}
        known = {name: p for name, p in tested.items() if p is not None}
        for name, p in zip(known, statistics.holm(list(known.values())), strict=True):
            one = results[name][metric]
            results[name][metric] = replace(one, tests={**one.tests, "holm": p})
    return results


def compare_rows(
    a: Sequence[ScoreRow], b: Sequence[ScoreRow], name: str, how: Bootstrap
) -> Comparison:
    """Compare rows b with rows a by one metric."""
    metric = METRICS[name]
    (units_a, table_a), (units_b, table_b) = _by_id(a, metric), _by_id(b, metric)
    shared = [key for key in table_a if key in table_b]
    if not shared:
        return Comparison(None, n=0)
    columns_a = np.stack([table_a[key] for key in shared])
    columns_b = np.stack([table_b[key] for key in shared])
    units = {key: unit_of(row, how.unit) for key, row in {**units_b, **units_a}.items()}
    difference = statistics.paired_bootstrap(
        columns_a, columns_b, metric.statistic, [units[key] for key in shared], how.draws, how.seed
    )
    if metric.timed:
        clocked_a, clocked_b = (
            processes.cells(
                [row for row in rows if row.id in shared], metric, partial(unit_of, unit=how.unit)
            )
            for rows in (a, b)
        )
        if min(clocked_a.number, clocked_b.number) > 1:
            difference = processes.difference(clocked_a, clocked_b, metric)
    seeds_a, seeds_b = _by_seed(a, metric), _by_seed(b, metric)
    both = [seed for seed in seeds_a if seed in seeds_b]
    single_a, single_b = metric.statistic(columns_a), metric.statistic(columns_b)
    defined = np.isfinite(single_a) & np.isfinite(single_b)
    tests = {
        "t": statistics.paired_t(single_a[defined], single_b[defined]),
        "wilcoxon": statistics.wilcoxon(single_a[defined], single_b[defined]),
        "welch": statistics.welch(np.array([*seeds_a.values()]), np.array([*seeds_b.values()])),
        "seeds": statistics.paired_t(
            np.array([seeds_a[seed] for seed in both]), np.array([seeds_b[seed] for seed in both])
        ),
    }
    values = {"a": _value(metric, columns_a), "b": _value(metric, columns_b)}
    return Comparison(**vars(difference) | values | {"n": len(shared), "tests": tests})


def _scored(folders: Sequence[Path]) -> list[ScoreRow]:
    return [row for folder in folders for row in read_scores(folder) if row.error is None]


def _by_seed(rows: Sequence[ScoreRow], metric: Metric) -> dict[int, float]:
    """Return the corpus figure of each seed that has one."""
    figures = {}
    for seed in sorted({row.seed for row in rows}):
        taking_part, columns = select([row for row in rows if row.seed == seed], metric)
        value = _value(metric, columns) if taking_part else None
        if value is not None:
            figures[seed] = value
    return figures


def _by_id(
    rows: Sequence[ScoreRow], metric: Metric
) -> tuple[dict[Hashable, ScoreRow], dict[Hashable, Array]]:
    """Return first row and seed-averaged columns of each utterance that takes part in a metric."""
    taking_part, columns = select(rows, metric)
    if not taking_part:
        return {}, {}
    keys, averaged = statistics.average_seeds([row.id for row in taking_part], columns)
    first = {row.id: row for row in reversed(taking_part)}
    return {key: first[str(key)] for key in keys}, dict(zip(keys, averaged, strict=True))


def _value(metric: Metric, columns: Array) -> float | None:
    value = metric.statistic(columns.sum(axis=0))
    return float(value) if np.isfinite(value) else None
