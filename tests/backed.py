"""Find the figures with intervals on a page, and the tables and pages that back them.

A figure is a number with its interval, `1.31 [1.28, 1.35]`, whatever words stand between the two,
or with its standard deviation, `1.83 ± 0.06`. It is backed if a file that is linked near it has the
same figure: to the page's digits, or with the sign of the opposite difference.
"""

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from speculative_tts.reporting.tables import MINUS

NUMBER = rf"[-+{MINUS}]?\d[\d,]*\.?\d*"
SPREAD = re.compile(rf"({NUMBER}) ± ({NUMBER})")
RANGE = re.compile(rf"({NUMBER}) \(({NUMBER})-({NUMBER})\)")  # as benches print an interval
INTERVAL = re.compile(rf"\[({NUMBER}), ({NUMBER})\]")
THOUSANDS = re.compile(r"\b\d{1,3}(?:,\d{3})+\b")
LINK = re.compile(r"!?\[([^][]*(?:\[[^][]*\][^][]*)*)\]\(([^)\s]+)\)")
HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)
ROOT = Path(__file__).resolve().parent.parent
LEANING = [  # pages in words: each may take figures from those after it, and from tables and logs
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "results/README.md",
    ROOT / "results/speeds/hours.md",
    ROOT / "results/sentences/questions.md",
    ROOT / "results/registered/README.md",
    ROOT / "results/sentences/goals.md",
    *sorted((ROOT / "results/registered").glob("*/README.md")),
]
Triple = tuple[float, float, float]


@dataclass(frozen=True)
class Figure:
    """A number with its interval, or twice its deviation, as a page prints them."""

    value: str
    low: str
    high: str
    near: str  # the words before it

    def __str__(self) -> str:
        return f"{self.text} after '{self.near}'"

    @property
    def text(self) -> str:
        """The figure alone."""
        return f"{self.value} [{self.low}, {self.high}]"

    @property
    def triple(self) -> Triple:
        """Its numbers."""
        return number(self.value), number(self.low), number(self.high)

    def is_in(self, others: tuple[Triple, ...]) -> bool:
        """Answer if one of the others is this figure, rounded, or with the opposite sign."""
        printed, near = self.triple, 0.5000001 * 10.0 ** -digits(self.low)

        def same(a: Triple) -> bool:
            return all(abs(one - other) <= near for one, other in zip(printed, a, strict=True))

        return any(same(one) or same((-one[0], -one[2], -one[1])) for one in others)

    def is_backed(self, sources: Iterable[tuple[Path, str]]) -> bool:
        """Answer if a linked file has this figure."""
        return any(self.is_in(backing(*source)) for source in sources)


def number(text: str) -> float:
    return float(text.replace(MINUS, "-").replace(",", ""))


def digits(text: str) -> int:
    return len(text.partition(".")[2])


def plain(text: str) -> str:
    """Return a text whose links are their words."""
    return LINK.sub(r"\1", text)


def figures(text: str) -> Iterator[Figure]:
    """Yield the figures of a text; its last number inside the interval is the interval's."""
    text, start = plain(text), 0
    for match in INTERVAL.finditer(text):
        low, high = match.groups()
        before = text[start : match.start()]
        inside = [
            one for one in re.findall(NUMBER, before) if number(low) <= number(one) <= number(high)
        ]
        yield Figure(inside[-1] if inside else low, low, high, before[-60:].replace("\n", " "))
        start = match.end()
    for value, low, high in RANGE.findall(text):
        yield Figure(value, low, high, "()")
    for value, spread in SPREAD.findall(text):
        yield Figure(value, spread, spread, "±")


def thousands(page: Path) -> Iterator[tuple[str, bool]]:
    """Yield the numbers of a page above 999, each with whether a file has it that is linked."""
    for block, lead in blocks(page.read_text(encoding="utf-8")):
        sources = [plain_numbers(*link) for link in links(f"{block}\n{lead}", page, block)]
        for text in THOUSANDS.findall(plain(block)):
            yield text, any(number(text) in source for source in sources)


@cache
def plain_numbers(path: Path, anchor: str) -> frozenset[float]:
    """Return the numbers of a linked page, or of its part."""
    text = part(path, anchor) if path.suffix == ".md" else ""
    return frozenset(map(number, re.findall(NUMBER, plain(text))))


def slug(heading: str) -> str:
    """Return the anchor that a heading has."""
    return re.sub(r"[^\w\- ]", "", plain(heading).strip().lower()).replace(" ", "-")


def sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield each heading with the text up to the next that is not below it; all of it first."""
    yield "", text
    marks = [*HEADING.finditer(text)]
    for place, mark in enumerate(marks):
        level = len(mark.group(1))
        after = (one.start() for one in marks[place + 1 :] if len(one.group(1)) <= level)
        yield slug(mark.group(2)), text[mark.start() : next(after, len(text))]


@cache
def part(path: Path, anchor: str) -> str:
    """Return a page, or what stands below one of its headings."""
    return dict(reversed([*sections(path.read_text(encoding="utf-8"))]))[anchor]


@cache
def backing(path: Path, anchor: str) -> tuple[Triple, ...]:
    """Return the figures of a linked page, or of its part, and of a table's CSV beside it."""
    found: list[Triple] = []
    if path.suffix == ".md":
        found += [one.triple for one in figures(part(path, anchor))]
    table = path.with_suffix(".csv")
    if table.is_file():
        with table.open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                found += columns(row)
    return tuple(found)


def columns(row: dict[str, str]) -> Iterator[Triple]:
    """Yield each figure of a row of a table, or of a figure's points, that has a spread."""
    for name, text in row.items():
        value = row.get("y", "") if name == "low" else row.get(name.removesuffix("_low"), "")
        if name.endswith("low") and text and value:
            yield float(value), float(text), float(row[name.removesuffix("low") + "high"])
        if name.endswith("_sd") and text:
            yield float(row[name.removesuffix("_sd")]), float(text), float(text)


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Yield each paragraph, item of a list and line of a table, with the text that leads to it.

    What leads are the paragraphs between the heading of its section and itself, and of a table its
    headings and the paragraph after it.
    """
    page = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
    for section in re.split(r"^(?=## )", page, flags=re.MULTILINE):
        lead, parts = "", re.split(r"\n\s*\n", section)
        for part, after in zip(parts, [*parts[1:], ""], strict=True):
            if part.startswith("|"):
                headings, *lines = part.splitlines()
                yield from ((line, f"{headings}\n{lead}{after}") for line in lines)
            elif part.startswith("- "):
                yield from ((item, lead) for item in part.split("\n- "))
            else:
                yield part, lead
                lead += f"{part}\n"


def all_figures(page: Path) -> Iterator[tuple[Figure, bool]]:
    """Yield the figures of a page, each with whether a file has it that is linked beside it."""
    text = page.read_text(encoding="utf-8")
    for block, lead in blocks(text):
        sources = [*links(f"{block}\n{lead}", page, block)]
        for figure in figures(block):
            yield figure, figure.is_backed(sources)


def links(text: str, page: Path, block: str) -> Iterator[tuple[Path, str]]:
    """Yield the files that a text links to, with the anchors, but for pages that lean on this one.

    Those are the pages before it in `LEANING`, and a part of the page itself that has the block.
    """
    for _, target in LINK.findall(text):
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if "://" in target or not path.is_file():
            continue
        circular = block in part(page, anchor) if path == page else leans(path, page)
        if not circular:
            yield path, anchor


def leans(path: Path, page: Path) -> bool:
    """Answer if a page may take figures from `page`, which then may take none from it."""
    places = [LEANING.index(one) if one in LEANING else len(LEANING) for one in (path, page)]
    return places[0] <= places[1] < len(LEANING)
