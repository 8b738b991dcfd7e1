"""A finished table and its three forms: Markdown and LaTeX for people, CSV for programs.

Cells keep their numbers; rounding happens when they are written. Missing figures are `-`, in CSV
empty fields.
"""

import csv
import io
import math
import re
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from jinja2 import Environment, PackageLoader

from speculative_tts.evaluation.statistics import LEAST, Measure
from speculative_tts.texts import first, some

COMMAND = ": sst-"  # stands between what is missing and the command that makes it
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
    """A figure or a text as people read it; of a figure the measure that programs get.

    `around` is an interval, a standard deviation, or the p of a difference.
    """

    value: str = "-"
    around: str = ""
    measure: Measure | None = None

    @classmethod
    def of(
        cls, measure: Measure, digits: int = 2, *, signed: bool = False, spread: str = "interval"
    ) -> "Cell":
        """Return a rounded figure with its interval, or its `sd`; a difference is `signed`."""

        def written(number: float) -> str:
            text = f"{number:{'+' if signed else ''}.{digits}f}"
            return (text.lstrip("+-") if float(text) == 0 else text).replace("-", MINUS)

        m = measure
        if m.value is None:
            return cls(measure=m)
        parts = []
        if spread == "sd" and m.sd is not None:
            parts.append(f"± {m.sd:.{digits}f}")
        elif m.low is not None and m.high is not None:
            parts.append(f"[{written(m.low)}, {written(m.high)}]")
        elif m.n is not None and 0 < m.n < LEAST:
            parts.append(f"(n = {m.n})")
        if m.p is not None:
            parts.append(p_text(m.p))
        return cls(written(m.value), " ".join(parts), m)

    def __str__(self) -> str:
        return f"{self.value} {self.around}".rstrip()


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


SYSTEM = Heading("system", "", "system")  # of the first column, which says what a line is
Line = Mapping[Heading, Cell]  # all lines of a block have the same headings
Block = Mapping[str, Line]  # by key


def headings(block: Block) -> list[Heading]:
    """Return the headings of a block's figures."""
    return [*next(iter(block.values()), ())][1:]


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

    @property
    def lacking(self) -> list[str]:
        """A short line for each command that makes what is missing: all that it makes, and it."""
        made: dict[str, list[str]] = {}
        for line in self.missing:
            label, sign, command = line.partition(COMMAND)
            made.setdefault(sign + command, []).append(label)
        named = {command: some(labels, between="; ") for command, labels in made.items()}
        return first([f"{labels}{command}" for command, labels in named.items()])

    def page(self, body: Sequence[str]) -> str:
        """Return GitHub Markdown: title, speech, warning, body, and what stands below it."""
        warning = f"**{plain(self.warning)}**" if self.warning else ""
        parts = [f"# {plain(self.title)}", plain(self.speech), warning, *body]
        parts += ["\n".join(map(plain, self.caption)), _listed(self.notes)]
        for heading, lines in (("Missing:", self.lacking), ("Made by:", self.origin)):
            parts += [heading, _listed(lines)] if lines else []
        return "\n\n".join(part for part in parts if part) + "\n"


@dataclass(frozen=True)
class Table(Printed):
    """A finished table: blocks by title, and the keys of the lines that have a rule above them."""

    blocks: Mapping[str, Block] = field(default_factory=dict)
    ruled: Collection[str] = ()


def with_figures(table: Table) -> Table:
    """Return a table without the rows that have no figure of ours, and without empty blocks."""
    own = {
        key
        for block in table.blocks.values()
        for key, line in block.items()
        if any(cell.measure and cell.measure.value is not None for cell in line.values())
    }
    kept = {
        title: {key: line for key, line in block.items() if key in own}
        for title, block in table.blocks.items()
    }
    return replace(table, blocks={title: block for title, block in kept.items() if block})


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {plain(line)}" for line in lines)


def plain(text: str) -> str:
    """Escape text for Markdown: no tag, link or new line; backquotes are code."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.splitlines()))
    parts[::2] = [re.sub(r"<(?=[A-Za-z/!?])|(?<=\])\(", r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)


def markdown(table: Table) -> str:
    """Return GitHub Markdown: blocks as tables, and what is printed around them."""
    return table.page([_markdown_block(*one) for one in table.blocks.items()])


def _markdown_block(title: str, block: Block) -> str:
    shown = headings(block)
    (first, *_), *_ = block.values()
    heading, rule = [first.text, *(one.text for one in shown)], ["---", *("---:" for _ in shown)]
    rows = [heading, rule, *(map(str, line.values()) for line in block.values())]
    lines = [f"| {' | '.join(map(_pipes, row))} |" for row in rows]
    return "\n".join([f"**{plain(title)}**", "", *lines])


def comma_separated(table: Table) -> str:
    """Return CSV: one line a row with every column of every block, figures unrounded.

    A figure `wer` has the columns wer, wer_low, wer_high, wer_sd and wer_n, a difference _p too, a
    speed _processes; columns without any figure are left out.
    """
    rows: dict[str, dict[str, str]] = {}
    names: dict[str, None] = {}
    for block in table.blocks.values():
        names |= dict.fromkeys(name for one in headings(block) for name in _names(one))
        for key, line in block.items():
            (label, *_), figures = line.values(), list(line.items())[1:]
            row = rows.setdefault(key, {"key": key, "system": label.value})
            for heading, cell in figures:
                row.update(_fields(heading, cell))
    used = [name for name in names if any(row.get(name) for row in rows.values())]
    header = ["key", "system", *used]
    return csv_text([header, *([row.get(name, "") for name in header] for row in rows.values())])


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
    m = cell.measure
    if m is None:
        return {heading.name: "" if cell.value == "-" else cell.value}
    n, processes = (None if m.value is None else number for number in (m.n, m.processes))
    values = (m.value, m.low, m.high, m.sd, m.p, n, processes)
    return dict(zip(_names(heading), map(exact, values), strict=True))


def latex(table: Table) -> str:
    """Return a table* with a tabular for each block, none wider than the text."""
    title = table.title if table.title.endswith(".") else f"{table.title}."
    caption = " ".join(filter(None, [title, table.speech, table.warning, *table.caption]))
    return TEX.get_template("table.tex.jinja").render(table=table, caption=caption)


def groups(shown: Sequence[Heading]) -> list[tuple[str, int, int]]:
    """Return the groups of headings, and the first and last column of each (labels: 1)."""
    spans, begin = [], 2
    for name, columns in groupby(heading.group for heading in shown):
        end = begin + len(list(columns)) - 1
        spans.append((name, begin, end))
        begin = end + 1
    return spans


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
TEX.filters |= {"escape": escape, "groups": groups, "headings": headings, "stacked": stacked}
