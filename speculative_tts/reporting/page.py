"""One HTML page for all papers: a summary, audio side by side, tables and figures behind tabs.

Each section is a JSON object inside the page, which its scripts show; a page that is written again
keeps the sections of other papers. It needs no other file and no network.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from speculative_tts.reporting.definitions import Report
from speculative_tts.reporting.examples import Heard
from speculative_tts.reporting.fill_figure import Figure
from speculative_tts.reporting.points import answers, points, retimed, timings
from speculative_tts.reporting.tables import Block, Cell, Table, comma_separated, headings
from speculative_tts.typed import json_text

FILES = "page_files"
SCRIPTS = ("chart.js", "listen.js", "page.js")
SECTION = re.compile(
    r'<script type="application/json" data-section="(\w+)">(.*?)</script>', re.DOTALL
)
PAPERS = ("claims", "ssd", "pcg", "mtp", "streaming", "frontier", "drafters", "speeds", "tiny")
ORDER = ("runs", *PAPERS, "others")


@dataclass(frozen=True)
class Section:
    """A paper's tables, figures and audio, as the page shows them.

    `data` is what its script reads; `report` may be of no paper at all.
    """

    report: Report
    data: Mapping[str, Any]


def section(
    report: Report, tables: Sequence[Table], figures: Sequence[Figure], heard: Heard
) -> Section:
    """Return the section of tables and figures that were just made."""
    written = {one.name: comma_separated(one) for one in tables}
    parts = {"tables": list(map(table_data, tables)), "figures": list(map(asdict, figures))}
    return assembled(report, written, parts, asdict(heard))


def assembled(
    report: Report,
    written: Mapping[str, str],
    parts: Mapping[str, Sequence[Mapping[str, Any]]],
    heard: Mapping[str, Any],
) -> Section:
    """Return the section of tables and figures, whose CSV texts are `written`."""
    heard_in = [one.rows for one in report.tables if one.name == report.listening]
    systems = {key: row.label for rows in heard_in for key, row in rows.items()}
    origins = {one["name"]: one["origin"] for one in parts["tables"]}
    data = {
        "title": report.title,
        "introduction": report.introduction,
        "not_reproduced": report.not_reproduced,
        **parts,
        "points": points(report, written, origins),
        "timings": timings(report, written, origins),
        "contrast": [systems[key] for key in report.contrast if key in systems],
    }
    return Section(report, {**data, **heard})


def page(sections: Sequence[Section], before: Path | None = None) -> str:
    """Return the page as HTML, with what a page at `before` has of other papers."""
    known = read_sections(before) if before else {}
    known |= {one.report.name: _finite(one.data) for one in sections}
    ordered = {name: known[name] for name in (*ORDER, *known) if name in known}
    timed = {
        place: one for data in ordered.values() for place, one in data.get("timings", {}).items()
    }
    for data in ordered.values():
        data["points"] = [retimed(point, timed) for point in data["points"]]
    systems = [
        {**point, "section": name} for name, data in ordered.items() for point in data["points"]
    ]
    told = [one.get("speech") for data in ordered.values() for one in data["tables"]]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(_resource("page.html"))
    style, *scripts = (Markup(_resource(name)) for name in ("page.css", *SCRIPTS))
    return template.render(
        sections={name: _embedded(data) for name, data in ordered.items()},
        answers=_embedded(answers(systems)),
        speech="".join(f" {text}" for text in dict.fromkeys(told) if text),
        own=not {*PAPERS} & {*ordered},
        style=style,
        scripts=scripts,
    )


def read_sections(path: Path) -> dict[str, dict[str, Any]]:
    """Return what a written page holds, by paper; nothing of a page that is not there."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return {name: json.loads(data) for name, data in SECTION.findall(text)}


def _resource(name: str) -> str:
    folder = resources.files("speculative_tts.reporting").joinpath(FILES)
    return folder.joinpath(name).read_text(encoding="utf-8")


def _finite(data: Any) -> Any:
    """Return data as JSON has it: NaN, which is not JSON, is null."""
    return json.loads(json.dumps(data), parse_constant=lambda _: None)


def _embedded(data: Any) -> Markup:
    """Return JSON that ends no script element, whatever its texts are."""
    text = json_text(data, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def table_data(table: Table) -> dict[str, Any]:
    """Return a table as the page shows it: cells are what is read and the number that sorts."""
    printed = {key: value for key, value in vars(table).items() if key not in ("blocks", "ruled")}
    return printed | {
        "blocks": [_block(title, block, table.ruled) for title, block in table.blocks.items()]
    }


def _block(title: str, block: Block, ruled: Collection[str]) -> dict[str, Any]:
    lines = [
        {
            "label": label.value,
            "rule": key in ruled and bool(place),
            "cells": [_cell(cell) for cell in cells],
        }
        for place, (key, line) in enumerate(block.items())
        for label, *cells in [line.values()]
    ]
    return {"title": title, "headings": [*map(asdict, headings(block))], "lines": lines}


def _cell(cell: Cell) -> list[Any]:
    number = cell.measure.value if cell.measure else None
    return [cell.value, cell.around, number]
