"""Put what a clock measured of some runs into a table, a figure or claims whose words stay.

Words are of tokens, whatever processor made them; times, speeds and shares of a round are of a
processor. Both are read from what was written, so that no run behind the words is needed.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from shipped import THEIRS, read_csv, read_table

from speculative_tts.reporting.captions import ONE_PROCESS
from speculative_tts.reporting.definitions import ClaimTable, Definition, FigureDefinition, Report
from speculative_tts.reporting.fill_claims import counts
from speculative_tts.reporting.fill_figure import level_kind, tag
from speculative_tts.reporting.points import SPEEDS
from speculative_tts.reporting.quantities import quantities, quantity
from speculative_tts.reporting.tables import (
    SYSTEM,
    Block,
    Cell,
    Heading,
    Line,
    Printed,
    Table,
    csv_text,
    with_figures,
)

PARTS = "low|high|sd|p|n|processes"
TIMES = "Times and speedups are of runs of their own"
UNTIMED = "Times and speedups were not measured in several processes, and none is shown."
OF_TIMES = " Those of times and speedups"  # begins what a caption says of processes
SPREADS = ("Brackets:", "Bands and bars:", "Figures are mean")
COUNTED = re.compile(r"(?P<n>\d+( to \d+)? utterances)\b.*; (?P<seeds>seeds? \d+(, \d+)*)[;.]")
SIZE = "groups.mean_size"
ON_CLOCK = re.compile(r"Not made alike|A round costs|.*: speedup [\d.]+, that of ")  # of notes
CsvRow = dict[str, str]


@cache
def clocked(column: str) -> bool:
    """Tell if a clock measured a quantity, or the column of a CSV that is made of one."""
    known = [
        one for one in quantities() if re.match(rf"{one}($|_({PARTS})$|_minus_|_over_)", column)
    ]
    name = max(known, key=len, default="")
    return bool(name) and quantity(name).timed


def under_clock(heading: Heading) -> bool:
    """Tell if a clock measured the cells of a printed column."""
    called = heading.group.removeprefix("Δ ")
    names = (re.escape(one.heading) for key, one in quantities().items() if clocked(key))
    return not heading.name.startswith(THEIRS) and bool(
        re.match(rf"({'|'.join(names)})($| over | to )", called)
    )


class Words:
    """The words of a folder's tables as they ship, in Markdown and in CSV."""

    def __init__(self, place: Path, report: Report) -> None:
        names = [one.name for one in report.tables if (place / f"{one.name}.csv").is_file()]
        self.tables = {name: read_table(place, report, name) for name in names}
        self.rows = {
            name: {row["key"]: row for row in read_csv(place / f"{name}.csv")} for name in names
        }

    def row(self, table: str, key: str, size: str | None = None) -> CsvRow:
        """Return a row of a CSV; with a group size, all that any table's row of that size says."""
        if size is None:
            return self.rows[table].get(key, {})
        alike = [
            row for rows in self.rows.values() for row in rows.values() if row.get(SIZE) == size
        ]
        return {name: text for row in alike for name, text in row.items() if text}

    def cells(self, table: str, title: str, key: str, size: str | None = None) -> dict[str, Cell]:
        """Return a row's cells of a block by heading; likewise with a group size."""
        if size is None:
            return _cells(self.tables[table].blocks.get(title, {}), {key})
        found: dict[str, Cell] = {}
        for name, rows in self.rows.items():
            alike = {one for one, row in rows.items() if row.get(SIZE) == size}
            for block in self.tables[name].blocks.values():
                found |= {h: c for h, c in _cells(block, alike).items() if c.value != "-"}
        return found


def _cells(block: Block, keys: Iterable[str]) -> dict[str, Cell]:
    lines = (line for key, line in block.items() if key in keys)
    return {heading.text: cell for line in lines for heading, cell in line.items()}


def asked(definition: Definition) -> list[str]:
    """Return how lines on the systems begin whose clocks a table or figure shows."""
    needs = definition.needs()
    return [f"{needs[key].label}: " for key, name in definition.shown() if of_clock(name)]


def with_clocks(old: Table, fresh: Table, words: Words, sized: Mapping[str, str]) -> Table:
    """Return a table with its words and the clocks of another; `sized` rows have a new setting."""

    def line(title: str, headings: Sequence[Heading], key: str) -> Line:
        clocks = _cells(fresh.blocks[title], {key})
        before = words.cells(old.name, title, key, sized.get(key))

        def cell(one: Heading) -> Cell:
            new = one == SYSTEM or under_clock(one) or (not before and one.name == THEIRS)
            return (clocks if new else before).get(one.text, Cell())

        return {one: cell(one) for one in headings}

    def whole(title: str, block: Block) -> Block:
        own, new = ([*next(iter(one.values()), ())] for one in (block, fresh.blocks[title]))
        called = {one.text: one for one in (*new, *own)}
        texts = with_new(
            [one.text for one in own],
            [one.text for one in new],
            lambda text: under_clock(called[text]),
        )
        headings = [called[text] for text in texts]
        return _without_empty({key: line(title, headings, key) for key in fresh.blocks[title]})

    blocks = {title: whole(title, old.blocks.get(title, {})) for title in fresh.blocks}
    return with_figures(replace(old, blocks=blocks, ruled=fresh.ruled))


def with_new(old: Sequence[str], fresh: Sequence[str], wanted: Callable[[str], bool]) -> list[str]:
    """Return names with those of `fresh` that they lack and that are wanted, in its order."""
    names, place = [*old], 0
    for one in fresh:
        if one in names:
            place = names.index(one) + 1
        elif wanted(one):
            names.insert(place, one)
            place += 1
    return names


def _without_empty(block: Block) -> Block:
    """Return a block without the clocks that none of its lines has."""
    lines = block.values()
    empty = {
        one
        for one in next(iter(lines))
        if under_clock(one) and all(line[one].value == "-" for line in lines)
    }
    return {
        key: {one: cell for one, cell in line.items() if one not in empty}
        for key, line in block.items()
    }


def csv_with_clocks(
    name: str,
    header: Sequence[str],
    fresh: Sequence[CsvRow],
    words: Words,
    sized: Mapping[str, str],
) -> str:
    """Return the CSV of such a table."""
    columns = [
        one for one in with_new(header, [*fresh[0]], clocked) if not clocked(one) or one in fresh[0]
    ]
    rows = []
    for row in fresh:
        before = words.row(name, row["key"], sized.get(row["key"])) | {"key": row["key"]}
        before |= {"system": row["system"]}
        rows.append([(row if clocked(one) else before).get(one, "") for one in columns])
    return csv_text([columns, *rows])


def printed(old: Printed, fresh: Printed, asked: Iterable[str]) -> dict[str, Any]:
    """Return what stands around a table or figure: of what words and clocks were made.

    Of what the clocks' runs lack, the systems that are `asked` for their speeds are told.
    """
    origin = [line for line in old.origin if not line.startswith(SPEEDS)]
    origin += [
        f"{SPEEDS}{line[0].lower()}{line[1:]}"
        for line in fresh.origin
        if not line.startswith(("Models", "Scored", "Judges"))
    ]
    return {
        "notes": [
            *(note for note in old.notes if not ON_CLOCK.match(note)),
            *(note for note in fresh.notes if ON_CLOCK.match(note)),
        ],
        "origin": origin,
        "missing": [
            *(line for line in old.missing if not line.startswith(SPEEDS)),
            *(f"{SPEEDS}{line}" for line in fresh.missing if line.startswith(tuple(asked))),
        ],
    }


def captioned(old: Sequence[str], fresh: Sequence[str], asked: Sequence[str]) -> list[str]:
    """Return a caption whose counts and intervals are of the words, and a line on the clocks.

    Where no system is `asked` for its speed there is none to speak of.
    """
    names = "|".join(re.escape(one.heading) for key, one in quantities().items() if clocked(key))
    kept = [line for line in old if not line.startswith((TIMES, UNTIMED))]
    lines = [line.partition(OF_TIMES)[0].partition(f" {ONE_PROCESS}")[0] for line in kept]
    lines = [re.sub(rf", ({names}) on \d+( to \d+)?", "", line) for line in lines]
    spread = next((line.partition(f"{OF_TIMES} are")[2] for line in fresh if OF_TIMES in line), "")
    counts = [
        f" ({count['n']}; {count['seeds']})" for line in fresh if (count := COUNTED.match(line))
    ]
    said = f"{TIMES}{''.join(counts)}. Their intervals are{spread}" if spread else UNTIMED
    place = max(n for n, line in enumerate(lines) if line.startswith(SPREADS)) + 1
    return [*lines[:place], *([said] if asked else []), *lines[place:]]


def points_with_clocks(
    definition: FigureDefinition, old: Sequence[CsvRow], fresh: Sequence[CsvRow]
) -> str:
    """Return the points of a figure, with what a clock measured of them from other points.

    A point whose system was not timed is left out. Raise ValueError for one of no system that the
    figure has: it was renamed, and would be lost with its speed.
    """
    place = ("plot", "series", "kind", "tag")
    clocks = {tuple(row[key] for key in place): row for row in fresh}
    axes, known = {one.title: one for one in definition.axes}, set(places(definition))
    rows = []
    for row in old:
        at = tuple(row[key] for key in place)
        if row["kind"] != "published" and at not in known:
            raise ValueError(
                f"{definition.name}: the figure has no point {', '.join(filter(None, at))}; if it "
                "was renamed, give its row in the CSV the new name, else take the row out"
            )
        own = axes[row["plot"]]
        (y,) = {one.y or own.y for one in own.curves if one.label == row["series"]} or {own.y}
        columns = ["y", "low", "high", "n"] if of_clock(y) else []
        columns += ["x"] if own.x and of_clock(own.x) else []
        new = clocks.get(at)
        if row["kind"] == "published" or not columns:
            rows.append(row)
        elif new is not None:
            rows.append(row | {key: new[key] for key in columns})
    return csv_text([[*old[0]], *([*row.values()] for row in rows)])


def places(definition: FigureDefinition) -> Iterator[tuple[str, str, str, str]]:
    """Yield plot, series, kind and tag of every point that a figure may have of our systems."""
    for axes in definition.axes:
        for curve in axes.curves:
            yield from ((axes.title, curve.label, curve.kind, tag(one)) for one in curve.values)
        kind = level_kind(axes)
        yield from ((axes.title, level.label, kind, level.label) for level in axes.levels)


def of_clock(names: str) -> bool:
    """Tell if a clock measured what an axis shows, the first that there is of `a|b`."""
    return any(clocked(name) for name in names.split("|"))


def about_clocks(tables: Sequence[ClaimTable]) -> set[str]:
    """Return the keys of the claims that speak of a clock."""
    return {
        f"{table.name}{number}"
        for table in tables
        for number, claim in enumerate(table.claims, 1)
        if clocked(claim.quantity)
    }


def claims_with_clocks(old: Table, fresh: Table, keys: Iterable[str]) -> Table:
    """Return a table of claims with these lines of another, counted again."""
    new = {key: line for block in fresh.blocks.values() for key, line in block.items()}
    blocks = {
        title: {
            key: new[key] if key in keys and key in new else line for key, line in block.items()
        }
        for title, block in old.blocks.items()
    }
    caption = [*counts(blocks), fresh.caption[-1]]
    return replace(old, caption=caption, blocks=blocks)


def claims_csv(old: Sequence[CsvRow], fresh: Sequence[CsvRow], keys: Iterable[str]) -> str:
    """Return the CSV of such a table."""
    new = {row["key"]: row for row in fresh if row["key"] in keys}
    columns = [*old[0]]
    rows = [new.get(row["key"], row) for row in old]
    return csv_text([columns, *([row.get(one, "") for one in columns] for row in rows)])
