"""List which word errors of the tables that ship follow from the scores that ship beside them.

    python scripts/score_index.py results   # writes results/scores.csv and results/scores.md

A cell follows from runs if their scores give its figure and its interval to the six digits that
are printed. `scores.csv` names the runs of each such cell, one of a seed, and the part of their
rows if it is of one voice, or of the voices that training had seen or not; `scores.md` counts them.
"""

import csv
import io
import itertools
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from functools import lru_cache
from pathlib import Path

from keep_runs import archive
from shipped import read_csv

from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.rows import ScoreRow, read_row
from speculative_tts.evaluation.summary import Bootstrap, interval
from speculative_tts.files import write_atomic
from speculative_tts.runs.archive import read_archive

WORDS = "wer"
PERCENT = 100.0
PLOT = "Word errors"  # begins the title of a figure's plot whose points are word errors
RUN = re.compile(r"(?P<label>.+)-s(?P<seed>\d+)(?:-[0-9a-f]{8})?")
OTHERS = ("paper_", "goal_")  # begin columns of figures that no run here gave
DERIVED = re.compile(r"minus_.*|.*_mean")  # keys of differences and means of other rows
SEEN = {True: "seen", False: "unseen", None: ""}  # parts of a list by its voices
INDEX, PAGE = "scores.csv", "scores.md"
ALL, MANY = "all", 6  # keys that a line of the page names
TEXT = f"""# Which word errors can be computed again

Recordings and speakers are synthetic on all these pages.

Scores of runs, a row an utterance, ship in the files `scores.jsonl.xz`, one for a folder's runs
([how to read them](../docs/runs.md#rows-that-ship)). Below is, for every table and figure that is
not made of scores itself (as [voices](sentences/voices.md) is), how many of its word errors with an
interval they give, to the last printed digit; [{INDEX}]({INDEX}) names the runs of each, one of a
seed (runs that said the same words stand for each other), and which part of their rows if a cell
is of some voices. Differences between rows, counts of tokens and rounds, and tokens per target pass
follow from the same files; times, DNSMOS, TV and KL do not. The files `records.jsonl.xz` have
codes, of fewer runs. Made by
`python scripts/score_index.py results`.
"""
HEADING = ("| table or figure | word errors | from scores | without |", "| --- | --- | --- | --- |")
Figures = tuple[str, str, str]  # value, lower and upper end, as printed


@dataclass(frozen=True)
class Cell:
    """A word error with its interval, of a table or of a figure's point."""

    table: str
    key: str
    column: str
    figures: Figures


@dataclass(frozen=True)
class Source:
    """The runs whose scores give a cell: their names in a folder's archive of scores.

    `part` is a voice, or `seen` or `unseen`, if the cell is of those rows alone.
    """

    table: str
    key: str
    column: str
    folder: str
    runs: str
    part: str = ""


def cells(results: Path) -> Iterator[Cell]:
    """Yield every word error that a table or figure under `results` prints with an interval."""
    for path in sorted(results.rglob("*.csv")):
        table = str(path.relative_to(results).with_suffix(""))
        for row in read_csv(path):
            if "plot" in row:
                yield from _points(table, row)
            elif not DERIVED.fullmatch(row["key"]):
                yield from _columns(table, row)


def _points(table: str, row: dict[str, str]) -> Iterator[Cell]:
    if row["plot"].startswith(PLOT) and row["low"]:
        key = " / ".join(row[name] for name in ("plot", "series", "tag"))
        yield Cell(table, key, "y", (row["y"], row["low"], row["high"]))


def _columns(table: str, row: dict[str, str]) -> Iterator[Cell]:
    for name, value in row.items():
        words = name == WORDS or name.endswith(f"_{WORDS}")
        if words and not name.startswith(OTHERS) and value and row.get(f"{name}_low"):
            yield Cell(table, row["key"], name, (value, row[f"{name}_low"], row[f"{name}_high"]))


unpacked = lru_cache(maxsize=4)(read_archive)  # its runs are asked for one after the other


def read_scores(folder: Path, runs: Iterable[str], part: str = "") -> list[ScoreRow]:
    """Return the scores that ship of runs in a folder of results, of a part of their rows."""
    there = unpacked(archive(folder, "scores"))
    rows = [read_row(row) for run in runs for row in there[run]]
    return [row for row in rows if part in _parts(row)]


def _parts(row: ScoreRow) -> tuple[str, ...]:
    return "", row.voice, SEEN[row["seen"]]


def figures(rows: Sequence[ScoreRow]) -> Figures:
    """Return the word errors of rows with their interval, in percent, as a table prints them."""
    found = interval(rows, METRICS[WORDS], Bootstrap())
    known = (found.value, found.low, found.high)
    value, low, high = ("" if one is None else f"{PERCENT * one:.6g}" for one in known)
    return value, low, high


def systems(names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Yield the runs that may be one system: one, or several of one label, one of each seed."""
    labels: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name in sorted(names):
        if run := RUN.fullmatch(name):
            labels[run["label"]][run["seed"]].append(name)
    for seeds in labels.values():
        yield from itertools.product(*seeds.values())
        if len(seeds) > 1:
            yield from ((name,) for of in seeds.values() for name in of)


def known(results: Path) -> dict[Figures, list[tuple[str, str]]]:
    """Return folder and runs of each system whose scores ship, by the figures that they give."""
    found = defaultdict(list)
    for path in sorted(results.rglob(archive(Path(), "scores").name)):
        place = str(path.parent.relative_to(results))
        for runs in sorted(systems(unpacked(path))):
            found[figures(read_scores(path.parent, runs))].append((place, " ".join(runs)))
    return found


def parts(results: Path, cell: Cell) -> Iterator[tuple[str, str, str]]:
    """Yield folder, runs and part of the runs beside a table whose part a cell's key names."""
    folder = (results / cell.table).parent
    if (path := archive(folder, "scores")).is_file():
        for runs in sorted(systems(unpacked(path))):
            rows = read_scores(folder, runs, cell.key)
            if rows and figures(rows) == cell.figures:
                yield str(folder.relative_to(results)), " ".join(runs), cell.key


def index(results: Path) -> list[Source]:
    """Return the runs of each cell that they give; those nearest to its table if several do."""
    systems_by = known(results)
    return [
        Source(one.table, one.key, one.column, *max(of, key=lambda it: _near(one.table, it[0])))
        for one in cells(results)
        if (of := systems_by.get(one.figures) or [*parts(results, one)])
    ]


def _near(table: str, place: str) -> int:
    """Return how many folders a table shares with the place of scores."""
    pairs = zip(Path(table).parts, Path(place).parts, strict=False)
    return len([*itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)])


def page(of: Sequence[Cell], sources: Sequence[Source]) -> str:
    """Return the page that counts, for each table, the cells which the index has."""
    there = {(one.table, one.key, one.column) for one in sources}
    tables: dict[str, list[Cell]] = defaultdict(list)
    for cell in of:
        tables[cell.table].append(cell)
    lines = [_line(name, all_, there) for name, all_ in tables.items()]
    whole = sum(line.endswith("|  |") for line in lines)
    none = sum(line.endswith(f"| {ALL} |") for line in lines)
    counts = (
        f"{len(there)} of {len(of)} word errors: {whole} of {len(lines)} tables and figures whole, "
        f"{len(lines) - whole - none} in part, {none} not."
    )
    return "\n".join([TEXT, counts, "", *HEADING, *lines, ""])


def _line(table: str, of: Sequence[Cell], there: set[tuple[str, str, str]]) -> str:
    left = [one.key for one in of if (one.table, one.key, one.column) not in there]
    keys = [*dict.fromkeys(left)]
    more = [f"{len(keys) - MANY} more"] if len(keys) > MANY else []
    without = ALL if len(left) == len(of) else ", ".join([*keys[:MANY], *more])
    return f"| [{table}]({table}.csv) | {len(of)} | {len(of) - len(left)} | {without} |"


def main() -> None:
    """Write the index and the page of a folder of results."""
    (results,) = map(Path, sys.argv[1:])
    sources = index(results)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([one.name for one in fields(Source)])
    table.writerows(astuple(one) for one in sources)
    write_atomic(results / INDEX, text.getvalue().encode())
    write_atomic(results / PAGE, page([*cells(results)], sources).encode())


if __name__ == "__main__":
    main()
