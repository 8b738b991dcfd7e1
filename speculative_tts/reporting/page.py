"""One HTML page for all papers: a summary, audio side by side, tables and figures behind tabs.

Each section is a JSON object inside the page, which its scripts show; a page that is written again
keeps the sections of other papers. It needs no other file and no network.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from speculative_tts.reporting.definitions import Report
from speculative_tts.reporting.examples import Heard
from speculative_tts.reporting.fill_figure import Figure
from speculative_tts.reporting.tables import Cell, Table

FILES = "page_files"
SCRIPTS = ("chart.js", "listen.js", "page.js")
SECTION = re.compile(
    r'<script type="application/json" data-section="(\w+)">(.*?)</script>', re.DOTALL
)
ORDER = ("claims", "ssd", "pcg", "mtp", "streaming", "frontier", "drafters", "tiny", "others")


@dataclass(frozen=True)
class Section:
    """What the page shows of one paper; `report` may be of no paper at all."""

    report: Report
    tables: Sequence[Table]
    figures: Sequence[Figure]
    heard: Heard

    def data(self) -> dict[str, Any]:
        """As JSON. `points` are the systems of the listening table, for the summary."""
        report = self.report
        listening = [table for table in self.tables if table.name == report.listening]
        return {
            "title": report.title,
            "introduction": report.introduction,
            "not_reproduced": report.not_reproduced,
            "tables": [_table(table) for table in self.tables],
            "figures": [asdict(figure) for figure in self.figures],
            "points": [point for table in listening for point in _points(table)],
            "contrast": [
                line.label
                for table in listening
                for key in report.contrast
                for line in table.blocks[0].lines
                if line.key == key
            ],
            **asdict(self.heard),
        }


def page(sections: Sequence[Section], before: Path | None = None) -> str:
    """The page as HTML, with what a page at `before` has of other papers."""
    kept = dict(SECTION.findall(_text(before))) if before else {}
    known = kept | {one.report.name: _embedded(one.data()) for one in sections}
    ordered = {name: Markup(known[name]) for name in (*ORDER, *known) if name in known}
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(_resource("page.html"))
    style, *scripts = (Markup(_resource(name)) for name in ("page.css", *SCRIPTS))
    return template.render(sections=ordered, style=style, scripts=scripts)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _resource(name: str) -> str:
    folder = resources.files("speculative_tts.reporting").joinpath(FILES)
    return folder.joinpath(name).read_text(encoding="utf-8")


def _embedded(data: Any) -> str:
    """JSON that ends no script element, whatever its texts are; NaN, which is not JSON, is null."""
    finite = json.loads(json.dumps(data), parse_constant=lambda _: None)
    text = json.dumps(finite, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _table(table: Table) -> dict[str, Any]:
    """A table whose cells are what is read and the number that sorts."""
    blocks = [
        {
            "title": block.title,
            "headings": [asdict(heading) for heading in block.headings],
            "lines": [
                {
                    "label": line.label,
                    "rule": line.rule_above,
                    "cells": [_cell(cell) for cell in line.cells],
                }
                for line in block.lines
            ],
        }
        for block in table.blocks
    ]
    return {name: value for name, value in vars(table).items() if name != "blocks"} | {
        "blocks": blocks
    }


def _cell(cell: Cell) -> list[Any]:
    number = cell.measure.value if cell.measure else None
    return [cell.value, cell.around, number]


def _points(table: Table) -> list[dict[str, Any]]:
    """Speed and word errors of a table's systems, each [value, low, high], and their difference."""
    found: dict[str, dict[str, Any]] = {}
    for block in table.blocks:
        for line in block.lines:
            point = found.setdefault(line.key, {"label": line.label})
            for heading, cell in zip(block.headings, line.cells, strict=True):
                name = "difference" if heading.name.startswith("wer_minus_") else heading.name
                m = cell.measure
                if name in {"wer", "speedup", "difference"} and m and m.value is not None:
                    point.setdefault(name, [m.value, m.low, m.high])
                    point.setdefault("n", m.n)
                    if name == "difference":
                        point.setdefault("baseline", heading.name.removeprefix("wer_minus_"))
    return [{"key": key, **one} for key, one in found.items() if "wer" in one]
