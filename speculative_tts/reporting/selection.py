"""Get the results that a definition asks for: runs, figures over their seeds, comparisons."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from speculative_tts.evaluation.compare import compare_all
from speculative_tts.reporting.needs import Need, SelectedRuns, figure, select
from speculative_tts.reporting.results import (
    SCALED,
    Measure,
    Result,
    difference,
    drawn_as,
    result,
)
from speculative_tts.reporting.runs import Found, Run

RoundCosts = Mapping[int, float]  # by lookahead: what a round costs, in steps of the target alone


@dataclass(frozen=True)
class Chosen:
    """Results by need, and what could not be found."""

    results: Mapping[str, Result]
    selection: SelectedRuns
    costs: RoundCosts = field(default_factory=dict)  # once they are known of the whole report

    @property
    def runs(self) -> list[Run]:
        """Every run behind the results."""
        return [run for one in self.results.values() for run in one.runs]

    @property
    def missing(self) -> tuple[str, ...]:
        """Lines for all systems without a run."""
        return tuple(map(str, self.selection.missing))

    @property
    def lacks(self) -> str:
        """The systems without a run in one line, with the first one's command; or empty."""
        if not self.missing:
            return ""
        first, *others = self.selection.missing
        more = f" (and {len(others)} more)" if others else ""
        return f"{first.label}{more}: {first.command}"


def choose(found: Found, needs: Mapping[str, Need], experiment: str | None) -> Chosen:
    """Return results of the runs that `needs` describe; needs that share runs share a result."""
    selection = select(found, needs, experiment)
    cache: dict[tuple[str, ...], Result] = {}
    results = {}
    for key, runs in selection.runs.items():
        names = tuple(run.name for run in runs)
        if names not in cache:
            cache[names] = result(runs)
        results[key] = cache[names]
    return Chosen(results, selection)


def round_costs(runs: Sequence[Run]) -> RoundCosts:
    """Return the cost of a round by lookahead: acceptance length over measured speedup.

    The geometric mean over all runs given. Rules share the drafting and verifying and differ in the
    few percent of a round that their own work takes, so that one figure serves them all.
    """
    measured: dict[int, list[float]] = {}
    for run in runs:
        length, speedup = (figure([run], name) for name in ("acceptance_length", "speedup"))
        if length and speedup:
            logs = measured.setdefault(int(run.config.get("lookahead", 0)), [])
            logs.append(math.log(length / speedup))
    return {k: math.exp(sum(logs) / len(logs)) for k, logs in sorted(measured.items())}


def with_speed_by_length(chosen: Chosen, costs: RoundCosts) -> Chosen:
    """Add `speedup_by_length` to the results: acceptance length over a round's cost."""
    results = {
        key: _divided(one, costs.get(int(one.runs[0].config.get("lookahead", 0))))
        for key, one in chosen.results.items()
    }
    return replace(chosen, results=results, costs=costs)


def cost_notes(shown: Collection[str], chosen: Chosen) -> list[str]:
    """Return a note on the round's costs behind speeds by length, if any are shown."""
    used = {run.config.get("lookahead") for run in chosen.runs}
    known = [f"{cost:.3f} at lookahead {k}" for k, cost in chosen.costs.items() if k in used]
    if "speedup_by_length" not in shown or not known:
        return []
    return [f"A round costs, in steps of the target alone: {', '.join(known)}."]


def _divided(one: Result, cost: float | None) -> Result:
    length = one.metrics.get("acceptance_length") or {}
    if not cost or not length.get("value"):
        return one
    own = {name: length[name] / cost for name in SCALED if length.get(name) is not None}
    added = {"speedup_by_length": {**own, "n": length.get("n")}}
    return replace(one, metrics={**one.metrics, **added})


def compare(
    chosen: Chosen, baseline: str, systems: Sequence[str], metrics: Sequence[str]
) -> dict[tuple[str, str], Measure]:
    """Return paired differences by (system, metric); none when the baseline has no run."""
    present = [key for key in systems if key in chosen.results and key != baseline]
    if baseline not in chosen.results or not present:
        return {}
    folders = {key: [run.folder for run in chosen.results[key].runs] for key in chosen.results}
    others = {key: folders[key] for key in present}
    how = drawn_as(chosen.results[baseline].runs[0])
    return {
        (key, metric): difference(row)
        for key, rows in compare_all(folders[baseline], others, metrics, how).items()
        for metric, row in rows.items()
    }
