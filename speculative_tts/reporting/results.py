"""Figures of a system, over all its seeds: what a table's cell or a figure's point is made of.

Statistics are not made here: `Scorer` is given by the command, since reporting and evaluation
do not know each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from speculative_tts.reporting.runs import Run


class Scorer(Protocol):
    """Statistics over scored run folders."""

    def aggregate(self, folders: Sequence[Path]) -> Mapping[str, Any]:
        """Figures over the seeds of a system, in the form of summary.json, with `sd` each."""

    def compare(
        self,
        baseline: Sequence[Path],
        systems: Mapping[str, Sequence[Path]],
        metrics: Sequence[str],
    ) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """Paired differences by system and metric: difference, low, high, p, p_holm, n."""


@dataclass(frozen=True)
class Measure:
    """A figure with its 95 % interval, its standard deviation over seeds, and the p of a test."""

    value: float | None
    low: float | None = None
    high: float | None = None
    sd: float | None = None
    p: float | None = None
    n: int | None = None

    def scaled(self, factor: float) -> "Measure":
        """In another unit."""

        def times(number: float | None) -> float | None:
            return None if number is None else number * factor

        return Measure(
            times(self.value), times(self.low), times(self.high), times(self.sd), self.p, self.n
        )


NOTHING = Measure(None)


@dataclass(frozen=True)
class Result:
    """All figures of a system."""

    runs: tuple[Run, ...]
    metrics: Mapping[str, Mapping[str, Any]]
    per_position: Mapping[str, Sequence[float | None]]

    def measure(self, name: str) -> Measure:
        """A quantity by name; `acceptance@1` is that of the first drafted position."""
        base, at, position = name.partition("@")
        if at:
            values = self.per_position.get(base) or []
            index = int(position) - 1
            return Measure(values[index]) if index < len(values) else NOTHING
        figure = self.metrics.get(name)
        if figure is None:
            return NOTHING
        names = ("value", "low", "high", "sd", "n")
        return Measure(**{key: figure.get(key) for key in names})

    def judge(self, metric: str) -> Mapping[str, Any]:
        """Who measured: {id, version, options}; empty when nobody did."""
        judge = self.runs[0].summary.get("judges", {}).get(metric)
        return judge if isinstance(judge, Mapping) else {}


def result(runs: tuple[Run, ...], scorer: Scorer) -> Result:
    """Figures of a system's runs: a single run's are in its summary, several seeds are pooled."""
    figures = runs[0].summary if len(runs) == 1 else scorer.aggregate([run.folder for run in runs])
    return Result(runs, figures.get("metrics", {}), figures.get("per_position", {}))


def difference(row: Mapping[str, Any]) -> Measure:
    """A paired difference as a measure; p corrected for the number of systems where it was."""
    p = row.get("p_holm")
    return Measure(
        row.get("difference"),
        row.get("low"),
        row.get("high"),
        p=row.get("p") if p is None else p,
        n=row.get("n"),
    )
