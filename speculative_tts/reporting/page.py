"""One HTML page with everything: tables, plots, audio, and how each number was made.

The page needs no other file and no network: style, plots (SVG) and audio (MP3) are inside.
"""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from speculative_tts.reporting.definitions import Report
from speculative_tts.reporting.examples import Example
from speculative_tts.reporting.fill_figure import Figure
from speculative_tts.reporting.tables import Table


@dataclass(frozen=True)
class Section:
    """What the page shows of one paper. `figures` are with their SVG."""

    report: Report
    tables: Sequence[Table]
    figures: Sequence[tuple[Figure, bytes]]
    examples: Sequence[Example]


def page(sections: Sequence[Section]) -> str:
    """The page as HTML."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"data_uri": _svg_uri, "code": _code}
    template = environment.from_string(_resource("page.html"))
    return template.render(sections=sections, style=Markup(_resource("page.css")))


def _resource(name: str) -> str:
    return resources.files("speculative_tts.reporting").joinpath(name).read_text(encoding="utf-8")


def _svg_uri(svg: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()


def _code(text: str) -> Markup:
    """Plain text as HTML; what stands in backquotes becomes code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))
