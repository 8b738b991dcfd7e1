"""Fill the tables of README.md and results/README.md from the tables that ship in results/.

    python scripts/headlines.py            # `make results` ends with it

A row that PAGES names takes its figures from a row of a CSV. Columns are matched by heading, and
columns with other headings (the method, the paper's figures) stay unchanged. A speedup has an
interval where it was timed in several processes, and is taken from `TIMED` where only that was.
"""

import csv
import re
from collections.abc import Mapping
from pathlib import Path

from speculative_tts.reporting.experiments import TINY
from speculative_tts.reporting.shown import REPORTS

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ROOT / "results"
COLUMNS = {  # heading: the CSV's column, and the digits after the point
    "word errors %": ("wer", 1),
    "WER %": ("wer", 1),
    "target's word errors %": ("wer", 1),
    "tokens per target pass": ("acceptance_length", 2),
    "speedup": ("speedup", 2),
    "speedup over the cached target": ("speedup", 2),
}
OF_TARGET = "target's word errors %"
NARROW = ("word errors %", OF_TARGET, "tokens per target pass")
SPEEDS = ("speedup", "speedup over the cached target")
TIMED = {  # rows that one process timed: the rows of several processes (`make speeds`)
    tuple(place.rsplit("/", 1)): (f"speeds/{table.name}", key)
    for table in REPORTS["speeds"](TINY).tables
    for key, row in table.rows.items()
    for place in row.times
}
SPEED = ("speedup", "speedup_low", "speedup_high", "speedup_processes")
TARGETS = {"ssd": ("ssd/table1", "target"), "pcg": ("pcg/table1", "target")}
TARGETS |= {"mtp": ("mtp/table1_valle", "cached")}
Rows = Mapping[str, tuple[str, str]]  # beginning of a row: the CSV and its row's key
PAGES: dict[str, dict[str, Rows]] = {  # page: section: rows
    "README.md": {
        "What it measures": {
            "exact speculative decoding": ("ssd/table1", "exact"),
            "SSD, tolerance 0.2": ("ssd/table3", "0.2"),
            "SSD, tolerance 0.4": ("ssd/table3", "0.4"),
            "PCG, groups of 10": ("pcg/table3", "embedding"),
            "MTP + Viterbi, 4 heads": ("mtp/table1_valle", "best4"),
            "MTP + Viterbi, 8 heads": ("mtp/table1_valle", "best8"),
        }
    },
    "results/README.md": {
        "SSD": {
            "target alone": ("ssd/table1", "target"),
            "draft alone": ("ssd/table1", "draft"),
            "exact speculative decoding": ("ssd/table1", "exact"),
            "SSD, beta 0.2": ("ssd/table3", "0.2"),
            "SSD, beta 0.4": ("ssd/table3", "0.4"),
        },
        "PCG": {
            "target alone": ("pcg/table1", "target"),
            "exact speculative decoding": ("pcg/table1", "exact"),
            "SSD, beta 0.3": ("pcg/table1", "ssd"),
            "PCG at SSD's tokens per target pass": ("pcg/table1", "pcg"),
        },
        "Any English sentence": {
            "`drafter=recurrent`, exact, 2": ("speeds/sentences", "recurrent-2"),
            "`drafter=recurrent`, exact, 3": ("speeds/sentences", "recurrent-3"),
            "`drafter=recurrent`, SSD 0.2": ("speeds/sentences", "ssd-0.2-3"),
            "`drafter=recurrent`, SSD 0.4": ("speeds/sentences", "ssd-0.4-3"),
            "`drafter=recurrent`, PCG, groups of 37.5": ("speeds/sentences", "pcg-37.5-3"),
            "`drafter=recurrent`, PCG, groups of 230": ("speeds/sentences", "pcg-230-3"),
            "7-layer draft, exact": ("speeds/sentences", "second-3"),
            "7-layer draft, SSD 0.4": ("speeds/sentences", "second_ssd-0.4-3"),
        },
        "MTP + Viterbi": {
            "target alone": ("mtp/table1_valle", "cached"),
            "4 heads, each by itself": ("mtp/table1_valle", "none4"),
            "4 heads, best path": ("mtp/table1_valle", "best4"),
            "8 heads, each by itself": ("mtp/table1_valle", "none8"),
            "8 heads, best path": ("mtp/table1_valle", "best8"),
        },
    },
}


def read(source: tuple[str, str], shipped: Path) -> dict[str, str]:
    """Read the row of a table that has this key."""
    name, key = source
    with (shipped / f"{name}.csv").open(encoding="utf-8") as file:
        return next(row for row in csv.DictReader(file) if row["key"] == key)


def timed(source: tuple[str, str], shipped: Path) -> dict[str, str]:
    """Read a row, with the speedup over several processes where only another table has that."""
    row = read(source, shipped)
    if source in TIMED and _processes(row) == 1:
        other = read(TIMED[source], shipped)
        row |= {name: other[name] for name in SPEED}
    return row


def _processes(row: Mapping[str, str]) -> int:
    return int(row.get("speedup_processes") or 1)


def figure(row: Mapping[str, str], heading: str) -> str:
    """Format a cell: the figure, with its interval if it has one that the page may print."""
    column, digits = COLUMNS[heading]
    narrow = heading in NARROW or (heading in SPEEDS and _processes(row) == 1)
    ends = [] if narrow else [f"{column}_low", f"{column}_high"]
    value, *interval = [f"{float(row[c]):.{digits}f}" for c in (column, *ends) if row.get(c)]
    return f"{value} [{', '.join(interval)}]" if interval else value


def filled_row(
    cells: list[str], headings: list[str], source: tuple[str, str], shipped: Path
) -> str:
    """Return a row of a page with our figures replaced."""
    own = timed(source, shipped)
    target = TARGETS.get(source[0].partition("/")[0])
    for place, heading in enumerate(headings):
        row = read(target, shipped) if target and heading == OF_TARGET else own
        if heading in COLUMNS and row.get(COLUMNS[heading][0]):
            cells[place] = figure(row, heading)
    return f"| {' | '.join(cells)} |"


def filled(text: str, sections: Mapping[str, Rows], shipped: Path = SHIPPED) -> str:
    """Fill all rows of a page that `sections` names; raise ValueError if the page lacks one."""
    left = {(section, start) for section, rows in sections.items() for start in rows}
    section, headings, lines = "", [""], text.splitlines()
    for number, line in enumerate(lines):
        cells = [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif re.fullmatch(r"\|[-|: ]+\|", lines[min(number + 1, len(lines) - 1)]):
            headings = cells
        for start, source in sections.get(section, {}).items():
            if line.startswith(f"| {start}"):
                lines[number] = filled_row(cells, headings, source, shipped)
                left.discard((section, start))
    if left:
        raise ValueError(f"the page has no such rows: {sorted(left)}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Rewrite the pages in place."""
    for page, sections in PAGES.items():
        path = ROOT / page
        path.write_text(filled(path.read_text(encoding="utf-8"), sections), encoding="utf-8")
        print(f"{page}: {sum(map(len, sections.values()))} rows filled from {SHIPPED}")


if __name__ == "__main__":
    main()
