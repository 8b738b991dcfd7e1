"""List the reports, and the judges whose figures they show of each run."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from speculative_tts.reporting.definitions import Definition, Report
from speculative_tts.reporting.experiments import Scale, scale_of
from speculative_tts.reporting.needs import fits
from speculative_tts.reporting.quantities import quantity
from speculative_tts.reporting.reading import read_report
from speculative_tts.reporting.runs import Run

NAMES = (
    *("ssd", "pcg", "mtp", "tiny", "streaming", "frontier", "drafters", "speeds", "claims"),
    *("retest", "late"),
)
REPORTS: dict[str, Callable[[Scale], Report]] = {name: partial(read_report, name) for name in NAMES}


def reports(name: str) -> list[str]:
    """Return the reports of a paper, or of `all`; raise ValueError for a paper that has none."""
    if name != "all" and name not in REPORTS:
        raise ValueError(f"paper={name} has no report; use {', '.join(REPORTS)} or all")
    return list(REPORTS) if name == "all" else [name]


def judges_shown(name: str, runs: Sequence[Run]) -> dict[Path, set[str]]:
    """Return the judges whose figures a paper's report shows, by folder of the runs.

    Runs that take no part in them are left out; one whose speed alone is shown has no judge.
    """
    found: dict[Path, set[str]] = {}
    for one in dict.fromkeys([*reports(name), "claims"]):
        for definition in REPORTS[one](scale_of(one, runs)).definitions:
            needs = definition.needs()
            for key, judges in _judges(definition).items():
                for run in runs:
                    if fits(run, needs[key]):
                        found.setdefault(run.folder, set()).update(judges)
    return found


def _judges(definition: Definition) -> dict[str, set[str]]:
    """Return the judges of what is shown of each need."""
    found: dict[str, set[str]] = {key: set() for key in definition.needs()}
    for key, names in definition.shown():
        judges = (quantity(name).judge for name in names.split("|"))
        found[key].update(judge for judge in judges if judge)
    return found
