"""Put speeds of several processes into the tables, figures and claims that ship.

    python scripts/retime.py runs/clocks results   # as `make clocks` does

What a clock measured (`clocks`) is taken from scored runs in the folders `ssd`, `pcg` and `mtp`;
what they lack becomes empty. A row that had searched for the setting of a rule keeps it, one that
searched for a speed searches again.
"""

import csv
import io
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from clocks import (
    SIZE,
    CsvRow,
    Words,
    about_clocks,
    asked,
    captioned,
    claims_csv,
    claims_with_clocks,
    csv_with_clocks,
    of_clock,
    points_with_clocks,
    printed,
    with_clocks,
)
from shipped import AGAIN, around, read_csv, read_page, read_table

from speculative_tts.files import write_atomic
from speculative_tts.reporting.definitions import (
    ClaimTable,
    FigureDefinition,
    Report,
    Row,
    TableDefinition,
)
from speculative_tts.reporting.experiments import scale_of
from speculative_tts.reporting.fill_claims import NAME as CLAIMS
from speculative_tts.reporting.fill_claims import fill_claims
from speculative_tts.reporting.fill_figure import figure_csv, fill_figure
from speculative_tts.reporting.fill_table import fill_table
from speculative_tts.reporting.needs import matches
from speculative_tts.reporting.runs import Found, find_runs
from speculative_tts.reporting.shown import REPORTS
from speculative_tts.reporting.tables import Printed, Table, comma_separated, latex, markdown
from speculative_tts.reporting.write import choose_all, run_rows, runs_of
from speculative_tts.typed import read_json, write_json

RUNS = {"ssd": "ssd", "pcg": "pcg", "mtp": "mtp", "frontier": "ssd", "claims": ""}  # their folders
SPEEDS = "speeds.json"  # of the runs that were timed, as runs.json is of those that were heard
SET_SIZE = f"rule.{SIZE}"


def sizes(place: Path) -> dict[str, str]:
    """Return the mean group size that each row of a folder's tables has, as printed."""
    rows = (row for path in sorted(place.glob("*.csv")) for row in read_csv(path))
    return {row["key"]: row[SIZE] for row in rows if row.get(SIZE)}


def pinned(rows: Mapping[str, Row], place: Path) -> dict[str, Row]:
    """Return rows that ask for the setting that a search had found; a speed is searched again."""
    found = sizes(place)
    runs = list(read_json(place / "runs.json", AGAIN).values())

    def one(key: str, row: Row) -> Row:
        if row.nearest is None or row.nearest.quantity == "speedup" or key not in found:
            return row
        (size,) = {
            run["config"][SET_SIZE]
            for run in runs
            if matches(run["config"], row.where)
            and f"{run['provenance']['groups']['mean_size']:.6g}" == found[key]
        }
        return replace(row.given({SET_SIZE: size}), nearest=None)

    return {key: one(key, row) for key, row in rows.items()}


class Folder:
    """A report's folder of results, and what it gets from runs in several processes."""

    def __init__(self, report: Report, place: Path, found: Found) -> None:
        self.place, self.words = place, Words(place, report)
        there = {path.stem for path in place.glob("*.csv")}
        self.report = replace(
            report,
            tables=[
                replace(one, rows=pinned(one.rows, place))
                for one in report.tables
                if one.name in there
            ],
            figures=[one for one in report.figures if one.name in there],
            claims=[_pinned_claims(one, place) for one in report.claims],
            speakers=[],
        )
        self.chosen = choose_all(self.report, found)

    def files(self) -> Iterator[tuple[str, str]]:
        """Yield the name and text of each file but runs.json."""
        for one in self.report.tables:
            yield from self._table(one, fill_table(one, self.chosen[one.name]))
        for figure in self.report.figures:
            yield from self._figure(figure)
        if self.report.claims:
            yield from self._claims(fill_claims(self.report.claims, self.chosen))

    def _table(self, definition: TableDefinition, fresh: Table) -> Iterator[tuple[str, str]]:
        old, rows = self.words.tables[fresh.name], _rows(comma_separated(fresh))
        before = self.words.rows[fresh.name]
        sized = {
            row["key"]: size
            for row in rows
            if (size := row.get(SIZE)) and before.get(row["key"], {}).get(SIZE, size) != size
        }
        of = asked(definition)
        made = with_clocks(old, fresh, self.words, sized)
        made = replace(made, **printed(old, fresh, of))
        made = replace(made, caption=captioned(old.caption, fresh.caption, of))
        header = [*next(iter(before.values()))]
        yield f"{fresh.name}.md", markdown(made)
        yield f"{fresh.name}.tex", latex(made)
        shown = {key for block in made.blocks.values() for key in block}
        rows = [row for row in rows if row["key"] in shown]
        yield f"{fresh.name}.csv", csv_with_clocks(fresh.name, header, rows, self.words, sized)

    def _figure(self, definition: FigureDefinition) -> Iterator[tuple[str, str]]:
        name = definition.name
        page = read_page(self.place / f"{name}.md")
        # A point is placed by its speed alone: the runs have no words.
        axes = [
            replace(one, y=one.x) if one.x and of_clock(one.x) else one for one in definition.axes
        ]
        chosen = self.chosen[name]
        quiet = {key: chosen.filled[key] for key, one in chosen.results.items() if not one.starved}
        chosen = replace(chosen, filled=quiet)  # a point has no row to say it
        fresh = fill_figure(replace(definition, axes=axes), chosen)
        old = Printed(**around(page, name))
        of = asked(definition)
        caption = captioned(old.caption, fresh.caption, of)
        made = replace(old, **printed(old, fresh, of), caption=caption)
        rows = read_csv(self.place / f"{name}.csv")
        yield f"{name}.md", made.page([f"![{made.title}]({name}.png)"])
        yield f"{name}.csv", points_with_clocks(definition, rows, _rows(figure_csv(fresh)))

    def _claims(self, fresh: Table) -> Iterator[tuple[str, str]]:
        keys = about_clocks(self.report.claims)
        old = read_table(self.place, self.report, CLAIMS)
        made = claims_with_clocks(old, fresh, keys)
        made = replace(made, **printed(old, fresh, ()))
        rows = read_csv(self.place / f"{CLAIMS}.csv")
        yield f"{CLAIMS}.md", markdown(made)
        yield f"{CLAIMS}.tex", latex(made)
        yield f"{CLAIMS}.csv", claims_csv(rows, _rows(comma_separated(fresh)), keys)


def _pinned_claims(table: ClaimTable, place: Path) -> ClaimTable:
    """Return a paper's claims with the settings that the paper's own tables have found."""
    where = place.parent / table.name
    if not (where / "runs.json").is_file():
        return table
    systems = {name: pinned(rows, where) for name, rows in table.systems.items()}
    return replace(table, systems=systems)


def _rows(text: str) -> list[CsvRow]:
    return list(csv.DictReader(io.StringIO(text)))


def retime(runs: Path, shipped: Path) -> list[Path]:
    """Rewrite the files of every report that the runs have speeds of; return them."""
    written = []
    for name, of in RUNS.items():
        places = sorted({path.parent for path in (shipped / name).rglob("runs.json")})
        if not places:
            continue
        found = find_runs(runs / of)
        report = REPORTS[name](scale_of(name, found.runs))
        for place in places:
            folder = Folder(report, place, found)
            made = dict(folder.files())
            for file, text in made.items():
                write_atomic(place / file, text)
            write_json(place / SPEEDS, run_rows(runs_of(folder.chosen)))
            written += [place / file for file in made]
    return written


def main() -> None:
    """Rewrite what lies in a folder; `draw_page` then draws its figures and page."""
    runs, shipped = map(Path, sys.argv[1:])
    print(f"{shipped}: {len(retime(runs, shipped))} files have the speeds of {runs}")


if __name__ == "__main__":
    main()
