"""The results that a definition asks for: its runs, figures over their seeds, comparisons."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from speculative_tts.reporting.results import Measure, Result, Scorer, difference, result
from speculative_tts.reporting.runs import Found, Need, Run, Selection, select

SCALED = ("value", "low", "high", "sd")


@dataclass(frozen=True)
class Chosen:
    """Results by need, and what could not be found."""

    results: Mapping[str, Result]
    selection: Selection

    @property
    def runs(self) -> list[Run]:
        """Every run behind the results."""
        return [run for one in self.results.values() for run in one.runs]

    @property
    def missing(self) -> tuple[str, ...]:
        """A line for every system without a run."""
        return tuple(map(str, self.selection.missing))


def choose(
    found: Found, scorer: Scorer, needs: Mapping[str, Need], experiment: str | None
) -> Chosen:
    """Results of the runs that `needs` describe. Points that share a run share its result."""
    selection = select(found, needs, experiment)
    cache: dict[tuple[str, ...], Result] = {}
    results = {}
    for key, runs in selection.runs.items():
        names = tuple(run.name for run in runs)
        if names not in cache:
            cache[names] = result(runs, scorer)
        results[key] = cache[names]
    return Chosen(_with_speed_by_length(results), selection)


def _with_speed_by_length(results: Mapping[str, Result]) -> dict[str, Result]:
    """Results with `speedup_by_length`: acceptance length over the cost of a round.

    The cost, in steps of the target alone, is acceptance length over measured speedup, of which the
    geometric mean over all systems with one lookahead is taken: drafting and verifying are the same
    work for all rules. What their accept steps differ in (about 3 % of a round) is lost.
    """
    names = ("acceptance_length", "speedup")
    measured: dict[object, dict[int, float]] = {}
    for one in results.values():
        length, speedup = (one.measure(name).value for name in names)
        if length and speedup:
            lookahead = one.runs[0].config.get("lookahead")
            measured.setdefault(lookahead, {})[id(one.runs)] = math.log(length / speedup)
    cost = {k: math.exp(sum(logs.values()) / len(logs)) for k, logs in measured.items()}
    return {
        key: _divided(one, cost.get(one.runs[0].config.get("lookahead")))
        for key, one in results.items()
    }


def _divided(one: Result, cost: float | None) -> Result:
    length = one.metrics.get("acceptance_length") or {}
    if not cost or not length.get("value"):
        return one
    own = {name: length[name] / cost for name in SCALED if length.get(name) is not None}
    added = {"speedup_by_length": {**own, "n": length.get("n")}}
    return replace(one, metrics={**one.metrics, **added})


def compare(
    chosen: Chosen, scorer: Scorer, baseline: str, systems: Sequence[str], metrics: Sequence[str]
) -> dict[tuple[str, str], Measure]:
    """Paired differences by (system, metric); empty when the baseline has no run."""
    present = [key for key in systems if key in chosen.results and key != baseline]
    if baseline not in chosen.results or not present:
        return {}
    compared = scorer.compare(
        [run.folder for run in chosen.results[baseline].runs],
        {key: [run.folder for run in chosen.results[key].runs] for key in present},
        metrics,
    )
    return {
        (key, metric): difference(row)
        for key, rows in compared.items()
        for metric, row in rows.items()
    }
