"""Writes a paper's tables and figures from the runs at hand, and gathers them for the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from speculative_tts.evaluation.ratings import QUANTITIES as HEARD
from speculative_tts.files import write_atomic
from speculative_tts.reporting import every_run, foreign
from speculative_tts.reporting.definitions import Report
from speculative_tts.reporting.examples import Heard, heard
from speculative_tts.reporting.experiments import scale_of
from speculative_tts.reporting.figures import draw
from speculative_tts.reporting.fill_claims import fill_claims
from speculative_tts.reporting.fill_figure import Figure, figure_csv, fill_figure
from speculative_tts.reporting.fill_speakers import fill_speakers
from speculative_tts.reporting.fill_table import fill_table
from speculative_tts.reporting.needs import Chosen, choose
from speculative_tts.reporting.page import Section, section
from speculative_tts.reporting.runs import Found, Run
from speculative_tts.reporting.shown import REPORTS
from speculative_tts.reporting.tables import Table, comma_separated, latex, markdown, with_figures
from speculative_tts.runs.folder import SCORES
from speculative_tts.typed import write_json


@dataclass(frozen=True)
class Written:
    """The section of a paper, the files written, and lines for the user: what lacks and why."""

    section: Section
    files: tuple[Path, ...]
    missing: tuple[str, ...]
    remarks: tuple[str, ...]
    runs: frozenset[str] = frozenset()  # names of those that it shows


def write_report(name: str, found: Found, out: Path) -> Written:
    """Write every table and figure that has a run into `out`/<paper>; the others are missing.

    What they show is what the paper's experiments make at the scale of the runs.
    """
    report = _without_unheard(REPORTS[name](scale_of(name, found.runs)), found)
    folder = _Folder(out / report.name)
    chosen = choose_all(report, found)
    runs = runs_of(chosen)
    tables = [
        *(fill_table(one, chosen[one.name]) for one in report.tables),
        *(fill_speakers(one, chosen[one.name]) for one in report.speakers),
    ]
    tables = [with_figures(table) for table in tables if chosen[table.name].filled]
    if report.claims and runs:
        tables = [fill_claims(report.claims, chosen), *tables]
    for table in tables:
        folder.table(table)
    figures = [fill_figure(one, chosen[one.name]) for one in report.figures]
    figures = [figure for figure in figures if not figure.empty]
    for figure in figures:
        folder.figure(figure)
    if runs:
        folder.runs(runs)
    made = section(report, tables, figures, _listening(report, chosen, found.foreign))
    missing = [f"{report.name} {name}: {one.lacks}" for name, one in chosen.items() if one.lacks]
    remarks = dict.fromkeys(line for one in chosen.values() for line in one.remarks)
    return Written(made, tuple(folder.files), tuple(missing), tuple(remarks), frozenset(runs))


def _without_unheard(report: Report, found: Found) -> Report:
    """Drop the tables of a listening test where nobody has listened to any run."""
    if any(HEARD.keys() & run.summary["metrics"].keys() for run in found.runs):
        return report
    return replace(report, tables=[table for table in report.tables if not table.heard])


def choose_all(report: Report, found: Found) -> dict[str, Chosen]:
    """Return results by table and figure."""
    return {one.name: choose(found, one.needs(), one.experiment) for one in report.definitions}


def runs_of(chosen: Mapping[str, Chosen]) -> dict[str, Run]:
    """Return every run of a report, once, by name."""
    return {run.name: run for one in chosen.values() for run in one.runs}


def write_every_run(found: Found, out: Path) -> Written:
    """Write the table of all scored runs, and the section that plots and plays them."""
    report, chosen = every_run.report(found.runs)
    folder = _Folder(out / report.name)
    (definition,) = report.tables
    table = fill_table(definition, chosen)
    folder.table(table)
    results = {definition.name: chosen}
    runs = runs_of(results)
    folder.runs(runs)
    made = section(report, [table], [], _listening(report, results, found.foreign))
    return Written(made, tuple(folder.files), (), (), frozenset(runs))


def write_foreign(found: Found, out: Path) -> Written:
    """Write the table of other systems' audio, and return its section."""
    folder = _Folder(out / foreign.REPORT.name)
    table = foreign.table(found.foreign)
    folder.table(table)
    spoken = heard({run.name: run for run in found.foreign}, "", "")
    made = section(foreign.REPORT, [table], [], spoken)
    return Written(made, tuple(folder.files), (), ())


def _listening(report: Report, chosen: Mapping[str, Chosen], others: Sequence[Run]) -> Heard:
    """Gather audio of the first seed of every system of the report's listening table.

    Other systems that spoke some of the same utterances are heard beside them.
    """
    for definition in (table for table in report.tables if table.name == report.listening):
        results = chosen[definition.name].results
        systems = {
            row.label: results[key].seeds[0]
            for key, row in definition.rows.items()
            if key in results
        }
        ids = {id_ for run in systems.values() for id_ in run.rows(SCORES)}
        systems |= {run.name: run for run in others if ids & {*run.rows(SCORES)}}
        return heard(systems, *(definition.rows[key].label for key in report.contrast))
    return Heard()


class _Folder:
    """The folder of a report's files, and which were written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[Path] = []

    def table(self, table: Table) -> None:
        self._write(f"{table.name}.md", markdown(table))
        self._write(f"{table.name}.csv", comma_separated(table))
        self._write(f"{table.name}.tex", latex(table))

    def figure(self, figure: Figure) -> None:
        for ending, data in draw(figure).items():
            self._write(f"{figure.name}.{ending}", data)
        self._write(f"{figure.name}.csv", figure_csv(figure))
        image = f"![{figure.title}]({figure.name}.png)"
        self._write(f"{figure.name}.md", figure.page([image]))

    def runs(self, runs: Mapping[str, Run]) -> None:
        self.files.append(self.folder / "runs.json")
        write_json(self.files[-1], run_rows(runs))

    def _write(self, name: str, data: str | bytes) -> None:
        self.files.append(self.folder / name)
        write_atomic(self.files[-1], data)


def run_rows(runs: Mapping[str, Run]) -> dict[str, dict[str, Any]]:
    """Return what runs.json says of each run, in order of names."""
    return {name: _run_row(runs[name]) for name in sorted(runs)}


def _run_row(run: Run) -> dict[str, Any]:
    provenance = {key: value for key, value in run.provenance.items() if key != "config"}
    return {"config": run.config, "provenance": provenance, "summary": run.summary}
