"""A finished table and its three forms: Markdown and LaTeX for people, CSV for programs.

Cells keep their numbers; rounding happens when they are written. Missing figures are `-`, in CSV
empty fields.
"""

import csv
import io
import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from jinja2 import Environment, PackageLoader

from speculative_tts.evaluation.statistics import LEAST, Measure

MINUS = "\N{MINUS SIGN}"
LATEX = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    MINUS: "$-$",
    **{character: f"${character}$" for character in "<>"},
    "≤": r"$\le$",
    "±": r"$\pm$",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "β": r"$\beta$",
    "θ": r"$\theta$",
    "Δ": r"$\Delta$",
}


@dataclass(frozen=True)
class Cell:
    """A figure of ours, or what the paper prints (`text`)."""

    measure: Measure | None = None
    digits: int = 2
    signed: bool = False
    spread: str = "interval"
    text: str | None = None

    @property
    def value(self) -> str:
        """The rounded figure alone."""
        if self.text is not None:
            return self.text
        number = self.measure.value if self.measure else None
        return "-" if number is None else self._number(number)

    @property
    def around(self) -> str:
        """Its interval or standard deviation, and the p of a difference; may be empty."""
        measure = self.measure
        if self.text is not None or measure is None or measure.value is None:
            return ""
        parts = []
        if self.spread == "sd" and measure.sd is not None:
            parts.append(f"± {measure.sd:.{self.digits}f}")
        elif measure.low is not None and measure.high is not None:
            parts.append(f"[{self._number(measure.low)}, {self._number(measure.high)}]")
        elif measure.n is not None and 0 < measure.n < LEAST:
            parts.append(f"(n = {measure.n})")
        if measure.p is not None:
            parts.append(p_text(measure.p))
        return " ".join(parts)

    def __str__(self) -> str:
        return f"{self.value} {self.around}".rstrip()

    def _number(self, number: float) -> str:
        text = f"{number:{'+' if self.signed else ''}.{self.digits}f}"
        if float(text) == 0:
            text = text.lstrip("+-")
        return text.replace("-", MINUS)


@dataclass(frozen=True)
class Heading:
    """A column's heading in two lines (`group` spans neighbours) and its name in CSV."""

    group: str
    sub: str
    name: str

    @property
    def text(self) -> str:
        """The heading on one line."""
        return f"{self.group}, {self.sub}" if self.sub else self.group


@dataclass(frozen=True)
class Line:
    """A row of a block."""

    key: str
    label: str
    cells: Sequence[Cell]
    rule_above: bool = False


@dataclass(frozen=True)
class Block:
    """Columns that stand together."""

    title: str
    headings: Sequence[Heading]
    lines: Sequence[Line]
    of: str = "system"  # what a line is

    def groups(self) -> list[tuple[str, int, int]]:
        """Return the groups of headings, and the first and last column of each (lines: 1)."""
        spans, first = [], 2
        for name, some in groupby(heading.group for heading in self.headings):
            last = first + len(list(some)) - 1
            spans.append((name, first, last))
            first = last + 1
        return spans


@dataclass(frozen=True)
class Printed:
    """A table or figure with everything that is printed around it, as plain text."""

    name: str  # of its files
    title: str
    caption: Sequence[str] = ()
    notes: Sequence[str] = ()
    origin: Sequence[str] = ()
    missing: Sequence[str] = ()
    warning: str = ""  # stands above the body
    speech: str = ""  # that recordings and speakers are synthetic; stands above everything

    def page(self, body: Sequence[str]) -> str:
        """Return GitHub Markdown: title, speech, warning, body, and what stands below it."""
        warning = f"**{plain(self.warning)}**" if self.warning else ""
        parts = [f"# {plain(self.title)}", plain(self.speech), warning, *body]
        parts += ["\n".join(map(plain, self.caption)), _listed(self.notes)]
        for heading, lines in (("Missing:", self.missing), ("Made by:", self.origin)):
            parts += [heading, _listed(lines)] if lines else []
        return "\n\n".join(part for part in parts if part) + "\n"


@dataclass(frozen=True)
class Table(Printed):
    """A finished table."""

    blocks: Sequence[Block] = ()


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {plain(line)}" for line in lines)


def plain(text: str) -> str:
    """Escape text for Markdown: no tag, link or new line; backquotes are code."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.splitlines()))
    parts[::2] = [re.sub(r"<(?=[A-Za-z/!?])|(?<=\])\(", r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)


def markdown(table: Table) -> str:
    """Return GitHub Markdown: blocks as tables, and what is printed around them."""
    return table.page([_markdown_block(block) for block in table.blocks])


def _markdown_block(block: Block) -> str:
    heading = [block.of, *(heading.text for heading in block.headings)]
    rule = ["---", *("---:" for _ in block.headings)]
    rows = [[line.label, *map(str, line.cells)] for line in block.lines]
    lines = [f"| {' | '.join(map(_pipes, row))} |" for row in (heading, rule, *rows)]
    return "\n".join([f"**{plain(block.title)}**", "", *lines])


def comma_separated(table: Table) -> str:
    """Return CSV: one line a row with every column of every block, figures unrounded.

    A figure `wer` has the columns wer, wer_low, wer_high, wer_sd and wer_n, a difference _p too, a
    speed _processes; columns without any figure are left out.
    """
    names = list(
        dict.fromkeys(name for block in table.blocks for h in block.headings for name in _names(h))
    )
    rows: dict[str, dict[str, str]] = {}
    for block in table.blocks:
        for line in block.lines:
            row = rows.setdefault(line.key, {"key": line.key, "system": line.label})
            for heading, cell in zip(block.headings, line.cells, strict=True):
                row.update(_fields(heading, cell))
    used = [name for name in names if any(row.get(name) for row in rows.values())]
    return csv_text([["key", "system", *used]]) + csv_text(
        [[row.get(n, "") for n in ("key", "system", *used)] for row in rows.values()]
    )


def csv_text(rows: Sequence[Sequence[object]]) -> str:
    """Return rows as CSV with plain newlines."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def exact(number: float | None) -> str:
    """Format a number for programs: six significant digits; empty for None, NaN and infinity."""
    return "" if number is None or not math.isfinite(number) else f"{number:.6g}"


def _names(heading: Heading) -> list[str]:
    parts = ("low", "high", "sd", "p", "n", "processes")
    return [heading.name, *(f"{heading.name}_{part}" for part in parts)]


def _fields(heading: Heading, cell: Cell) -> dict[str, str]:
    if cell.text is not None:
        return {heading.name: "" if cell.text == "-" else cell.text}
    m = cell.measure or Measure(None)
    n, processes = (None if m.value is None else number for number in (m.n, m.processes))
    values = (m.value, m.low, m.high, m.sd, m.p, n, processes)
    return dict(zip(_names(heading), map(exact, values), strict=True))


def latex(table: Table) -> str:
    """Return a table* with a tabular for each block, none wider than the text."""
    title = table.title if table.title.endswith(".") else f"{table.title}."
    caption = " ".join(filter(None, [title, table.speech, table.warning, *table.caption]))
    return TEX.get_template("table.tex.jinja").render(table=table, caption=caption)


def stacked(text: str) -> str:
    """Break a heading into short lines, one above the other."""
    lines = [escape(line) for line in textwrap.wrap(text, 14)]
    stack = r"\\".join(lines)
    return rf"\shortstack[r]{{{stack}}}" if len(lines) > 1 else stack


def escape(text: str) -> str:
    """Escape plain text for LaTeX; `code` in backquotes becomes typewriter."""
    escaped = "".join(LATEX.get(character, character) for character in text)
    return re.sub(r"`([^`]*)`", r"\\texttt{\1}", escaped)


def p_text(p: float) -> str:
    """Write a p-value in words."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def _pipes(text: str) -> str:
    return plain(text).replace("|", r"\|")


TEX = Environment(
    *("<%", "%>", "<<", ">>", "<#", "#>"),
    loader=PackageLoader("speculative_tts.reporting", "page_files"),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
TEX.filters |= {"escape": escape, "stacked": stacked}
