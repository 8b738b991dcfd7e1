"""Read tables and figures back from the files that were written of them.

The page and the plots of a folder of results can so be drawn again without the runs behind it.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from speculative_tts.evaluation.statistics import Measure
from speculative_tts.reporting.definitions import Axes, FigureDefinition, Report
from speculative_tts.reporting.examples import Heard
from speculative_tts.reporting.fill_claims import NAME
from speculative_tts.reporting.fill_figure import Figure, Plot, Point, Series, plotted
from speculative_tts.reporting.page import Section, assembled, table_data
from speculative_tts.reporting.runs import Run
from speculative_tts.reporting.tables import MINUS, Cell, Heading, Table
from speculative_tts.typed import read_json

AGAIN = "make the report again"
FIGURE = re.compile(r"(?P<value>\S+) (?P<around>(?:\[|± |\(n = |p [=<]).*)")
SUB = re.compile(r"(?P<group>.+?), (?P<sub>points .*|p, .*|paper.*|goal.*|\[.*|[^,]*)")
PAPER = "paper"
THEIRS = f"{PAPER}_"  # name of a heading over what a paper prints
LISTS = {"Missing:": "missing", "Made by:": "origin"}


@dataclass
class Page:
    """A Markdown file of `tables.Printed`, taken apart."""

    title: str = ""
    warning: str = ""
    speech: str = ""
    caption: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    origin: list[str] = field(default_factory=list)
    blocks: list[tuple[str, list[list[str]]]] = field(default_factory=list)  # title, cells


def read_page(path: Path) -> Page:
    """Take a written table or figure apart."""
    page, listed, title = Page(), "notes", ""
    parts = [part.splitlines() for part in path.read_text(encoding="utf-8").split("\n\n") if part]
    page.speech = _speech(parts)
    for lines in parts:
        first = lines[0]
        if first.startswith("# "):
            page.title = unescaped(first.removeprefix("# "))
        elif first in LISTS:
            listed = LISTS[first]
        elif first.startswith("**") and first.endswith("**"):
            page.warning, title = title or page.warning, unescaped(first.strip("*"))
        elif first.startswith("| "):
            page.blocks.append((title, [_cells(line) for line in lines if line[:5] != "| ---"]))
            title = ""
        elif first.startswith("- "):
            getattr(page, listed).extend(unescaped(line.removeprefix("- ")) for line in lines)
        elif not first.startswith("!["):
            page.caption += map(unescaped, lines)
    page.warning = page.warning or title
    return page


def _speech(parts: list[list[str]]) -> str:
    """Take out the line between title and body, and return it; empty where there is none."""
    plain = len(parts) > 1 and not parts[1][0].startswith(("**", "!["))
    return unescaped(parts.pop(1)[0]) if plain else ""


def unescaped(text: str) -> str:
    """Undo `tables.plain` and the escape of pipes; links that were written by hand become text."""
    text = re.sub(r"\[([^]]*)\]\(([^)]*)\)", r"\1 (\2)", text)
    return re.sub(r"\\([<(|])", r"\1", text)


def _cells(line: str) -> list[str]:
    return [unescaped(cell.strip()) for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def read_table(folder: Path, report: Report, name: str) -> Table:
    """Read a written table; its lines have the keys of its CSV."""
    page = read_page(folder / f"{name}.md")
    definitions = {one.name: one for one in report.tables}
    rows = definitions[name].rows.items() if name in definitions else ()
    ruled = {key for key, row in rows if row.rule_above}
    called = definitions[name].paper.called if name in definitions else PAPER
    keys = {row["system"]: row["key"] for row in read_csv(folder / f"{name}.csv")}
    blocks = {}
    for title, ((system, *texts), *lines) in page.blocks:
        headings = [Heading(system, "", "system"), *(_heading(text, called) for text in texts)]
        blocks[title] = {
            keys[line[0]]: dict(zip(headings, map(_cell, headings, line), strict=True))
            for line in lines
        }
    return Table(**around(page, name), blocks=blocks, ruled=ruled)


def read_csv(path: Path) -> list[dict[str, str]]:
    """Read the rows of a written CSV file."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def around(page: Page, name: str) -> dict[str, Any]:
    """Return what is printed around a written table or figure, as fields of `tables.Printed`."""
    names = ("title", "caption", "notes", "origin", "missing", "warning", "speech")
    return {"name": name} | {one: getattr(page, one) for one in names}


def _heading(text: str, called: str) -> Heading:
    parts = SUB.fullmatch(text)
    group, sub = parts.group("group", "sub") if parts else (text, "")
    return Heading(group, sub, THEIRS if sub.startswith(called) else text)


def _cell(heading: Heading, text: str) -> Cell:
    """Return a cell with the number that sorts, if it has one; what a paper prints has none."""
    parts = None if heading.name in (THEIRS, "system") else FIGURE.fullmatch(text)
    value, around = parts.group("value", "around") if parts else (text, "")
    try:
        number = None if heading.name == THEIRS else float(value.replace(MINUS, "-"))
    except ValueError:
        number = None
    return Cell(value, around, Measure(number))


def figure(folder: Path, definition: FigureDefinition) -> Figure:
    """Return a figure from its points in CSV, its words in Markdown and its definition."""
    page = read_page(folder / f"{definition.name}.md")
    runs = read_json(folder / "runs.json", AGAIN)
    results = [
        Run(folder / name, run["config"], run["summary"], run["provenance"])
        for name, run in runs.items()
    ]
    rows = read_csv(folder / f"{definition.name}.csv")
    plots = [_plot(axes, results, rows) for axes in definition.axes]
    return Figure(**around(page, definition.name), plots=plots, columns=definition.columns)


def _plot(axes: Axes, results: Sequence[Run], rows: Sequence[Mapping[str, str]]) -> Plot:
    styles = {curve.label: curve.style for curve in axes.curves}
    own = [row for row in rows if row["plot"] == axes.title]
    series = [
        Series(label, kind, list(_points(own, label, kind)), styles.get(label, 0))
        for label, kind in dict.fromkeys((row["series"], row["kind"]) for row in own)
    ]
    return plotted(axes, series, results)


def _points(rows: Sequence[Mapping[str, str]], label: str, kind: str) -> Iterator[Point]:
    for row in rows:
        if (row["series"], row["kind"]) == (label, kind):
            x, y, low, high = (
                float(row[key]) if row[key] else None for key in ("x", "y", "low", "high")
            )
            count = int(row["n"]) if row["n"] else None
            yield Point(
                float("nan") if x is None else x, Measure(y, low, high, n=count), row["tag"]
            )


def shipped_section(report: Report, folder: Path, heard: Mapping[str, Any]) -> Section:
    """Return the section of what lies in a folder, with the audio of an earlier page."""
    written = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.csv")}
    claims = [NAME] if report.claims else []
    tables = [*claims, *(one.name for one in report.tables)]
    tables += [one.name for one in report.speakers]
    parts = {
        "tables": [
            table_data(read_table(folder, report, name)) for name in tables if name in written
        ],
        "figures": [asdict(figure(folder, one)) for one in report.figures if one.name in written],
    }
    audio = {one.name: heard[one.name] for one in fields(Heard)}
    return assembled(report, written, parts, audio)
