"""The results that a definition asks for: its runs, figures over their seeds, comparisons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from speculative_tts.reporting.results import Measure, Result, Scorer, difference, result
from speculative_tts.reporting.runs import Found, Need, Run, Selection, select


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
    return Chosen(results, selection)


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
