"""Figures are drawn without warnings (pytest makes them errors), whatever points there are."""

import io
import struct

import pytest

from speculative_tts.reporting.figures import draw
from speculative_tts.reporting.fill_figure import Figure, Plot, Point, Series
from speculative_tts.reporting.results import Measure

CURVE = Series(
    "ours", "curve", [Point(k, Measure(1.0 / k, 0.9 / k, 1.2 / k), str(k)) for k in (1, 2)]
)
LEVEL = Series("target", "level", [Point(float("nan"), Measure(0.7, 0.6, 0.8))])
MARK = Series("target", "mark", [Point(1.0, Measure(0.7))])
PAPER = Series("paper", "published", [Point(1.0, Measure(0.5))])


def figure(*plots: Plot, columns: int = 3) -> Figure:
    return Figure("f", "A figure", plots, columns)


def size(png: bytes) -> tuple[int, int]:
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", io.BytesIO(png[16:24]).read())
    return width, height


@pytest.mark.parametrize(
    "plot",
    [
        Plot("all", "x", "y", [CURVE, LEVEL, PAPER], sweep=[1, 2], ceiling="x + 1", chosen=2),
        Plot(
            "quantity on x", "x", "a long label (with a bracket at its end)", [CURVE, MARK, PAPER]
        ),
        Plot("one", "x", "y", [Series("ours", "curve", [Point(1, Measure(0.0))])], sweep=[1]),
        Plot("no points", "x", "y", [Series("ours", "curve", [])], sweep=[1, 2]),
    ],
    ids=lambda plot: plot.title,
)
def test_draws(plot: Plot) -> None:
    files = draw(figure(plot))
    assert set(files) == {"png", "svg"}
    assert min(size(files["png"])) > 400
    assert files["svg"].startswith(b"<?xml")
    assert b"<dc:date>" not in files["svg"]


def test_plots_fill_rows() -> None:
    plot = Plot("p", "x", "y", [CURVE], sweep=[1, 2])
    wide, tall = (
        size(draw(figure(plot, plot, plot))["png"]),
        size(draw(figure(plot, plot, plot, columns=2))["png"]),
    )
    assert wide[0] > tall[0]
    assert wide[1] < tall[1]


def test_a_figure_without_own_points_is_empty() -> None:
    assert figure(Plot("p", "x", "y", [LEVEL, PAPER])).empty
    assert not figure(Plot("p", "x", "y", [CURVE])).empty
