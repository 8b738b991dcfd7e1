"""Figures of a system, over all its seeds: what a table's cell or a figure's point is made of.

Statistics are not made here: `Scorer` is given by the command, since reporting and evaluation
do not know each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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


SCALED = ("value", "low", "high", "sd")  # parts of a measure that have its unit


@dataclass(frozen=True)
class Measure:
    """A figure with its 95 % interval, its standard deviation over seeds, and the p of a test.

    `tests` has the p of further tests by name.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    sd: float | None = None
    p: float | None = None
    n: int | None = None
    tests: Mapping[str, float | None] = field(default_factory=dict)

    def scaled(self, factor: float) -> "Measure":
        """In another unit."""
        known = {name: number for name in SCALED if (number := getattr(self, name)) is not None}
        return replace(self, **{name: number * factor for name, number in known.items()})


NOTHING = Measure(None)


@dataclass(frozen=True)
class Result:
    """All figures of a system."""

    runs: tuple[Run, ...]
    metrics: Mapping[str, Mapping[str, Any]]
    per_position: Mapping[str, Sequence[float | None]]

    def measure(self, name: str) -> Measure:
        """A quantity by name; `acceptance@1` is that of the first drafted position.

        `groups.theta` is a fact of the groups that the run used.
        """
        if name.startswith("groups."):
            return Measure(_fact(self.runs[0].provenance, name.split(".")))
        base, at, position = name.partition("@")
        if at:
            values = self.per_position.get(base) or []
            index = int(position) - 1
            return Measure(values[index]) if index < len(values) else NOTHING
        figure = self.metrics.get(name) or {}
        parts: dict[str, Any] = {key: figure.get(key) for key in (*SCALED, "n")}
        return Measure(**parts)

    def judge(self, metric: str) -> Mapping[str, Any]:
        """Who measured: {id, version, options}; empty when nobody did."""
        judge = self.runs[0].summary.get("judges", {}).get(metric)
        return judge if isinstance(judge, Mapping) else {}


def _fact(values: Any, keys: Sequence[str]) -> float | None:
    """A number inside nested mappings; None where it is not."""
    for key in keys:
        values = values.get(key) if isinstance(values, Mapping) else None
    return float(values) if isinstance(values, int | float) else None


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
        tests={"welch": row.get("p_welch"), "seeds": row.get("p_seeds")},
    )
