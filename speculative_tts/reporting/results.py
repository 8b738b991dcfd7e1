"""Figures of a system, over all its seeds: what a table's cell or a figure's point is made of."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from speculative_tts.evaluation.aggregate import aggregate
from speculative_tts.evaluation.compare import Comparison
from speculative_tts.evaluation.ratings import QUANTITIES as HEARD
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.statistics import NOTHING, SCALED, Measure
from speculative_tts.evaluation.summary import Bootstrap
from speculative_tts.reporting.runs import Run

STARVED = 0.7  # share of a quiet machine's memory speed; with less a speed leads no table


@dataclass(frozen=True)
class Result:
    """All figures of a system, or of a part of its utterances."""

    runs: tuple[Run, ...]
    part: Mapping[str, Any] | None = None  # figures of some utterances, in place of all
    cost: float | None = None  # of a round, in steps of the target alone

    @cached_property
    def figures(self) -> Mapping[str, Any]:
        """Figures as `aggregate` returns them: those of a single run are in its summary."""
        if self.part is not None:
            return self.part
        if len(self.runs) == 1:
            return self.runs[0].summary
        pooled = aggregate([run.folder for run in self.runs], drawn_as(self.runs[0]))
        return pooled | {"metrics": pooled["metrics"] | _heard(self.runs)}

    @property
    def per_position(self) -> Mapping[str, Sequence[float | None]]:
        """Figures of each position of a round."""
        found: Mapping[str, Sequence[float | None]] = self.figures.get("per_position", {})
        return found

    def measure(self, name: str) -> Measure:
        """Return a quantity by name; `acceptance@1` is that of the first drafted position.

        `groups.theta` is a fact of the groups that the run used.
        """
        if name.startswith("groups."):
            return Measure(_fact(self.runs[0].provenance, name.split(".")))
        if name == "speedup_by_length":
            length = self.measure("acceptance_length")
            return length.scaled(1 / self.cost) if self.cost and length.value else NOTHING
        base, at, position = name.partition("@")
        if at:
            values = self.per_position.get(base) or []
            index = int(position) - 1
            return Measure(values[index]) if index < len(values) else NOTHING
        figure = self.figures.get("metrics", {}).get(name) or {}
        parts: dict[str, Any] = {key: figure.get(key) for key in (*SCALED, "n", "processes")}
        clocked = name in METRICS and METRICS[name].timed and parts["value"] is not None
        if clocked and parts["processes"] is None:
            parts["processes"] = 1  # of a run before several were timed
        return Measure(**parts)

    @property
    def starved(self) -> str:
        """Say how fast memory was beside a quiet machine's, where that was much less."""
        for run in self.runs:
            of_one, quiet = (
                _fact(run.provenance, ("memory", name)) for name in ("gb_per_second", "quiet")
            )
            speed = run.summary.get("memory") or of_one  # the median of several processes
            if speed and quiet and speed < STARVED * quiet:
                return f"starved: {speed:.0f} GB/s a core, quiet {quiet:.0f}"
        return ""

    def judge(self, metric: str) -> str:
        """Id of the judge who measured; empty when nobody did."""
        return str(self.runs[0].summary.get("judges", {}).get(metric, {}).get("id", ""))


def _fact(values: Any, keys: Sequence[str]) -> float | None:
    """Return a number inside nested mappings; None where there is none."""
    for key in keys:
        values = values.get(key) if isinstance(values, Mapping) else None
    return float(values) if isinstance(values, int | float) else None


def drawn_as(run: Run) -> Bootstrap:
    """Return sst-eval's settings of a run's intervals, so that those made here agree with them."""
    settings = run.summary.get("bootstrap", {})
    return Bootstrap(**{k: settings[k] for k in ("draws", "unit", "seed") if k in settings})


def _heard(runs: Iterable[Run]) -> dict[str, Any]:
    """Return listeners' ratings of one of the seeds: a test has one run a system."""
    figures = [run.summary.get("metrics", {}) for run in runs]
    return {name: one[name] for one in figures for name in HEARD if name in one}


def measured(names: str, results: Iterable[Result]) -> str:
    """Choose from `utmos|dnsmos` the first that a result has; the last where none has any."""
    known = list(results)
    *first, last = names.split("|")
    for name in first:
        if any(one.measure(name).value is not None for one in known):
            return name
    return last


def difference(row: Comparison) -> Measure:
    """Return a paired difference as a measure; p is the corrected one where there is one."""
    return Measure(
        row.difference,
        row.low,
        row.high,
        p=row.p if row.p_holm is None else row.p_holm,
        n=row.n,
        tests={"welch": row.p_welch, "seeds": row.p_seeds},
    )
