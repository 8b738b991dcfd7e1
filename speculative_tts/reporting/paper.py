"""Read the figures that the papers print, and what was known when claims got their margins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import yaml

from speculative_tts.typed import typed

PAPERS = resources.files("speculative_tts.reporting").joinpath("papers")


@dataclass(frozen=True)
class DraftPolicy:
    """A paper's way to make its draft: in words, the number of trained layers, and the losses."""

    text: str
    train_layers: int
    losses: tuple[str, ...]


@dataclass(frozen=True)
class HeadsPolicy:
    """A paper's way to make its multi-token heads, and its targets' number of layers of codes."""

    text: str
    layers: int


@dataclass(frozen=True)
class PaperTable:
    """One published table: rows by key, each a mapping from column to the printed text.

    `measured` says how: the paper's name of a column, its judge. `derived` has the columns that are
    not printed but follow from printed ones, with the formula. `called` heads its columns.
    """

    source: str = ""
    measured: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    settings: str = ""
    derived: Mapping[str, str] = field(default_factory=dict)
    called: str = "paper"
    system: str = ""  # whose figures they are, where a paper has several
    draft: DraftPolicy | None = None  # set beside how ours was made
    heads: HeadsPolicy | None = None  # likewise

    def text(self, row: str, column: str) -> str | None:
        """Return what the paper prints; None where it has no such row or figure."""
        return self.rows.get(row, {}).get(column)

    def value(self, row: str, column: str) -> float:
        """Return a printed figure without its spread; raise KeyError when there is none."""
        return number(self.rows[row][column])

    def column(self, name: str, rows: Sequence[object]) -> list[float]:
        """Return the printed figures of a column in some rows."""
        return [self.value(str(row), name) for row in rows]


NOT_PUBLISHED = PaperTable()


def number(text: str) -> float:
    """Return the figure in a printed cell: 13.8 of `13.8 ± 0.4`, 1.4 of `1.4x`."""
    return float(text.partition("±")[0].strip().rstrip("x"))


@cache
def known_of_lists() -> dict[str, str]:
    """Return what was known of a test list when its claims' margins were set, by its name."""
    return _read("known.yaml")


@cache
def published(name: str) -> PaperTable:
    """Return a published table by its name in the file."""
    raw = _read("published.yaml")[name]
    rows = {}
    for line in raw["rows"].splitlines():
        key, *cells = (cell.strip() for cell in line.split("|"))
        rows[key] = dict(zip(raw["columns"].split(), cells, strict=False))
        if "baseline" in raw:
            rows[key]["speedup"] = f"{raw['baseline'] / float(rows[key]['lm_rtf']):.2f}"
    return typed(PaperTable, raw | {"rows": rows}, name)


def _read(file: str) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(PAPERS.joinpath(file).read_text(encoding="utf-8"))
    return data
