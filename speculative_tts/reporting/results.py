"""Figures of a system, over all its seeds: what a table's cell or a figure's point is made of."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from speculative_tts.evaluation.aggregate import aggregate
from speculative_tts.evaluation.compare import Comparison
from speculative_tts.evaluation.ratings import QUANTITIES as HEARD
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.summary import Bootstrap
from speculative_tts.reporting.runs import Run

STARVED = 0.7  # share of a quiet machine's memory speed; with less a speed leads no table
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
    processes: int | None = None  # that a speed was measured in
    tests: Mapping[str, float | None] = field(default_factory=dict)

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


@dataclass(frozen=True)
class Result:
    """All figures of a system."""

    runs: tuple[Run, ...]
    metrics: Mapping[str, Mapping[str, Any]]
    per_position: Mapping[str, Sequence[float | None]]

    def measure(self, name: str) -> Measure:
        """Return a quantity by name; `acceptance@1` is that of the first drafted position.

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
        parts: dict[str, Any] = {key: figure.get(key) for key in (*SCALED, "n", "processes")}
        clocked = name in METRICS and METRICS[name].timed and parts["value"] is not None
        if clocked and parts["processes"] is None:
            parts["processes"] = 1  # of a run before several were timed
        return Measure(**parts)

    @property
    def starved(self) -> str:
        """Say how fast memory was beside a quiet machine's, where that was much less."""
        for run in self.runs:
            speed, quiet = run.summary.get("memory"), _fact(run.provenance, ("memory", "quiet"))
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


def result(runs: tuple[Run, ...]) -> Result:
    """Return the figures of a system: a single run's are in its summary, seeds are pooled."""
    pooled = len(runs) > 1
    folders = [run.folder for run in runs]
    figures = aggregate(folders, drawn_as(runs[0])) if pooled else runs[0].summary
    return Result(runs, figures.get("metrics", {}) | _heard(runs), figures.get("per_position", {}))


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
