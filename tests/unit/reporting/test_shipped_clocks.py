"""Every speed of a table that ships is of five processes, or its row says that it is of three."""

import re
from pathlib import Path

import pytest
from clocks import clocked, of_clock, places, under_clock
from csv_rows import by_key
from draw_page import report_folders
from markdown_tables import blocks
from shipped import read_csv, read_page, read_table

from speculative_tts.evaluation.processes import ENOUGH
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.reporting.definitions import FigureDefinition, Report, TableDefinition
from speculative_tts.reporting.experiments import TINY
from speculative_tts.reporting.fill_claims import Finding
from speculative_tts.reporting.page import read_sections
from speculative_tts.reporting.points import answers
from speculative_tts.reporting.shown import REPORTS

SHIPPED = Path(__file__).resolve().parents[3] / "results"
FEW = re.compile(r"\(timed in three processes\b")  # what a row then says
FOLDERS = {path.parent for path in sorted(SHIPPED.rglob("*.csv"))}
TABLES = [  # of `registered` too, which has no runs.json
    (REPORTS[names[0]](TINY), place, one)
    for place in sorted(FOLDERS)
    if (names := [name for name in (place.name, place.parent.name) if name in REPORTS])
    for one in REPORTS[names[0]](TINY).tables
    if (place / f"{one.name}.csv").is_file()
]
NAMES = [str((place / one.name).relative_to(SHIPPED)) for _, place, one in TABLES]
FIGURES = [
    (place, one)
    for report, place in report_folders(SHIPPED)
    for one in report.figures
    if (place / f"{one.name}.csv").is_file()
]


def headings(page: Path) -> list[list[str]]:
    return [list(block) for block in blocks(page.read_text(encoding="utf-8"))]


def measured(row: dict[str, str]) -> dict[str, str]:
    """Return the figures that a clock measured in a row; a target over itself is not one."""
    timed = {name: text for name, text in row.items() if name in METRICS and METRICS[name].timed}
    timed = {name: text for name, text in timed.items() if text}
    return {k: text for k, text in timed.items() if text != "1" or row.get(f"{k}_low")}


def too_few(place: Path, name: str) -> list[str]:
    """Return the rows of a table whose speeds are of too few processes without saying so.

    Seeds of a table in which each is a process of its own count as processes.
    """
    origin = read_page(place / f"{name}.md").origin
    (seeds,) = (line for line in origin if line.startswith("Seeds: "))
    found = []
    for row in read_csv(place / f"{name}.csv"):
        for column in measured(row):
            spread = len(seeds.split(",")) if row.get(f"{column}_sd") else 1
            processes = int(row.get(f"{column}_processes") or spread)
            if processes < ENOUGH and not FEW.search(row["system"]):
                found.append(f"{row['key']} {column}")
    return found


@pytest.mark.parametrize(("report", "place", "table"), TABLES, ids=NAMES)
def test_a_tables_speeds_are_of_enough_processes(
    report: Report, place: Path, table: TableDefinition
) -> None:
    """Most showed speeds of a single process, from which another may differ by 0.1."""
    assert not too_few(place, table.name)


@pytest.mark.parametrize(
    ("place", "figure"), FIGURES, ids=[f"{place.name}/{one.name}" for place, one in FIGURES]
)
def test_a_figures_speeds_are_of_enough_processes(place: Path, figure: FigureDefinition) -> None:
    """Seconds of a codec are those of the first process: the caption then says so."""
    drawn = {row["plot"] for row in read_csv(place / f"{figure.name}.csv")}
    axes = [one for one in figure.axes if one.title in drawn]
    named = {name for one in axes for name in (one.x, one.y, *(c.y for c in one.curves))}
    if any(of_clock(name) for name in named if name):
        caption = " ".join(read_page(place / f"{figure.name}.md").caption)
        (counted,) = re.findall(r"over processes and utterances \((.*?) processes\)", caption)
        alone = "of one process" in caption
        assert (counted, alone) in {(f"{ENOUGH}", False), (f"1 to {ENOUGH}", True)}


@pytest.mark.parametrize(
    ("place", "figure"), FIGURES, ids=[f"{place.name}/{one.name}" for place, one in FIGURES]
)
def test_a_figures_points_have_the_names_of_today(place: Path, figure: FigureDefinition) -> None:
    """`make clocks` refuses a point whose name the figure no longer has."""
    known = set(places(figure))
    own = [row for row in read_csv(place / f"{figure.name}.csv") if row["kind"] != "published"]
    assert {tuple(row[key] for key in ("plot", "series", "kind", "tag")) for row in own} <= known


SPEED = re.compile(r"speed|tokens/s|ms/token|ms a token|first audio|microseconds", re.IGNORECASE)
REPORTED = {place / f"{one.name}.md" for _, place, one in TABLES} | {
    place / f"{one.name}.md" for place, one in FIGURES
}
OTHERS = [  # pages of speeds that no report makes
    page
    for page in sorted(SHIPPED.rglob("*.md"))
    if page not in REPORTED and page.name not in {"README.md", "claims.md", "LOG.md"}
    if page.parent.name != "log"
    if any(SPEED.search(head) for heads in headings(page) for head in heads)
]


@pytest.mark.parametrize("page", OTHERS, ids=[str(one.relative_to(SHIPPED)) for one in OTHERS])
def test_any_other_page_says_above_its_tables_of_how_many_processes_it_is(page: Path) -> None:
    """Benches gave intervals over the prompts of a single process, and said so elsewhere."""
    top, _, _ = page.read_text(encoding="utf-8").partition("\n| ")
    assert re.search(rf"\b(one process|in {ENOUGH} processes)\b", top)


@pytest.mark.parametrize(
    "place", ["claims", "registered/claims", "registered/late", "registered/retest"]
)
def test_a_speed_of_few_processes_has_neither_figure_nor_verdict(place: str) -> None:
    """Six claims showed what one process had measured, beside a verdict that told them off."""
    rows = [
        row for row in read_csv(SHIPPED / place / "claims.csv") if row["test"].startswith("speedup")
    ]
    assert rows
    for row in rows:
        enough = int(row.get("here_processes") or 0) >= ENOUGH
        alone = row["verdict"] == Finding.few.value and not row["here"]
        assert enough or alone, row["system"]


def test_speeds_of_fewer_processes_stand_in_the_list_of_exceptions() -> None:
    """Which speeds have no interval over processes was said nowhere as a whole."""
    page = SHIPPED / "speeds" / "exceptions.md"
    listed = {
        (page.parent / one).resolve() for one in re.findall(r"\]\(([^)#]*)", page.read_text())
    }
    assert all(one.is_file() for one in listed)
    few = {place / f"{one.name}.md" for _, place, one in TABLES if FEW.search(_text(place, one))}
    alone = {one for one in OTHERS if "one process" in one.read_text().partition("\n| ")[0].lower()}
    assert alone
    assert few | alone - {page} <= listed


def _text(place: Path, table: TableDefinition) -> str:
    return (place / f"{table.name}.csv").read_text(encoding="utf-8")


def test_nothing_of_one_process_leads_or_is_plotted_without_saying_so() -> None:
    sections = read_sections(SHIPPED / "index.html")
    systems = [{**one, "section": name} for name, of in sections.items() for one in of["points"]]
    timed = [one for one in systems if one.get("speedup", [None])[0] not in (None, 1.0)]
    assert timed
    assert all(one["processes"] >= ENOUGH or FEW.search(one["label"]) for one in timed)
    leading = answers(systems)
    assert all(leading[one]["processes"] >= ENOUGH for one in ("lossless", "within"))


@pytest.mark.parametrize(("report", "place", "table"), TABLES, ids=NAMES)
def test_clocks_are_the_same_in_markdown_and_csv(
    report: Report, place: Path, table: TableDefinition
) -> None:
    """Retiming writes both; each printed speed is the CSV's, rounded."""
    rows = by_key(place / f"{table.name}.csv")
    for block in read_table(place, report, table.name).blocks.values():
        for key, line in block.items():
            known = [abs(float(t)) for c, t in rows[key].items() if clocked(c) and _number(t)]
            for heading, cell in line.items():
                number = cell.measure.value if under_clock(heading) and cell.measure else None
                if number is not None:
                    digits = len(cell.value.partition(".")[2])
                    near = 0.5000001 * 10**-digits
                    scaled = [one * scale for one in known for scale in (1, 100)]
                    assert any(abs(one - abs(number)) <= near for one in scaled), (line, cell.value)


def _number(text: str) -> bool:
    return bool(re.fullmatch(r"-?[\d.]+(e[-+]?\d+)?", text))
