"""Compute a run's figures from its score rows: value, interval and n of every metric."""

from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from speculative_tts.evaluation import processes, statistics
from speculative_tts.evaluation.efficiency import per_position
from speculative_tts.evaluation.metric import Metric
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.rows import ScoreRow, read_row
from speculative_tts.evaluation.statistics import Array, Measure
from speculative_tts.records import read_jsonl
from speculative_tts.runs.folder import SCORES

UNITS = ("utterance", "speaker")


@dataclass(frozen=True)
class Bootstrap:
    """Settings of the bootstrap: number of draws, the unit (utterance or speaker), the seed."""

    draws: int = statistics.DRAWS
    unit: str = "utterance"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"unit={self.unit} is unknown; use {' or '.join(UNITS)}")


def select(rows: Sequence[ScoreRow], metric: Metric) -> tuple[list[ScoreRow], Array]:
    """Return the rows that take part in a metric, and their columns [rows, columns]."""
    pairs = [(row, metric.columns(row)) for row in rows]
    taking_part = [(row, values) for row, values in pairs if None not in values]
    columns = np.array([values for _, values in taking_part], dtype=np.float64, ndmin=2)
    return [row for row, _ in taking_part], columns


def unit_of(row: ScoreRow, unit: str) -> Hashable:
    """Return the bootstrap's unit of a row: the utterance, or its speaker if the list names one."""
    return row.speaker if unit == "speaker" and row.speaker else row.id


def interval(rows: Sequence[ScoreRow], metric: Metric, how: Bootstrap) -> Measure:
    """Estimate a metric over rows, averaging the seeds of an utterance; n counts utterances.

    A speed's is over processes too, where there are several.
    """
    kept, columns = select(rows, metric)
    if not kept:
        return Measure(None, n=0)
    if metric.timed:
        clocked = processes.cells(kept, metric, partial(unit_of, unit=how.unit))
        if clocked.number > 1 and how.draws:
            return processes.interval(clocked, metric)
        return replace(_interval(kept, columns, metric, how), processes=clocked.number)
    return _interval(kept, columns, metric, how)


def _interval(kept: Sequence[ScoreRow], columns: Array, metric: Metric, how: Bootstrap) -> Measure:
    ids, columns = statistics.average_seeds([row.id for row in kept], columns)
    units = {row.id: unit_of(row, how.unit) for row in kept}
    clusters = [units[str(key)] for key in ids]
    return statistics.bootstrap(columns, metric.statistic, clusters, how.draws, how.seed)


def figures(rows: Sequence[ScoreRow], how: Bootstrap) -> dict[str, dict[str, Any]]:
    """Return every metric as {value, low, high, n}; None where nothing was measured."""
    return {name: interval(rows, metric, how).written() for name, metric in METRICS.items()}


def summarise(rows: Sequence[ScoreRow], how: Bootstrap) -> dict[str, Any]:
    """Return the part of `summary.json` that is computed from score rows."""
    scored = [row for row in rows if row.error is None]
    failed = [row for row in rows if row.error is not None]
    flags = [flag for row in scored for flag in row.flags]
    return {
        "n": len(scored),
        "n_failed": len(failed),
        "failed": {row.id: row.error for row in failed},
        "n_at_max_length": sum(row["stop"] == "max_length" for row in scored),
        "flags": {flag: flags.count(flag) for flag in dict.fromkeys(flags)},
        "memory": _memory(scored),
        "bootstrap": asdict(how) | {"level": statistics.LEVEL, "least": statistics.LEAST},
        "metrics": figures(scored, how),
        "per_position": per_position(scored),
    }


def _memory(rows: Sequence[ScoreRow]) -> float | None:
    """Return the median of GB/s that a core read of memory in the processes that timed."""
    speeds = [clock.get("memory") for row in rows for clock in row["clocks"] or ()]
    known = [speed for speed in speeds if speed is not None]
    return float(np.median(known)) if known else None


def read_scores(folder: Path) -> list[ScoreRow]:
    """Read the rows of a scored run folder; raise ValueError if it has not been scored."""
    path = folder / SCORES
    if not path.is_file():
        raise ValueError(f"{folder} has no {SCORES}; run sst-eval on it first")
    return [read_row(row) for row in read_jsonl(path)]
