"""Figures are drawn without warnings (pytest makes them errors), whatever points there are."""

import io
import struct
from itertools import combinations

import pytest

from speculative_tts.reporting.figures import _canvas, draw
from speculative_tts.reporting.fill_figure import Figure, Plot, Point, Series
from speculative_tts.reporting.results import Measure

CURVE = Series(
    "ours", "curve", [Point(k, Measure(1.0 / k, 0.9 / k, 1.2 / k), str(k)) for k in (1, 2)]
)
LEVEL = Series("target", "level", [Point(float("nan"), Measure(0.7, 0.6, 0.8))])
MARK = Series("target", "mark", [Point(1.0, Measure(0.7))])
PAPER = Series("paper", "published", [Point(1.0, Measure(0.5))])


def figure(*plots: Plot, columns: int = 3) -> Figure:
    return Figure("f", "A figure", plots=plots, columns=columns)


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


def test_tags_do_not_cover_each_other_and_curves_run_along_x() -> None:
    """PCG's figure 2 as it came out: settings whose order is not that of their speeds."""
    group = [(1.02, 10.5, "1"), (1.09, 10.1, "4.5"), (1.05, 11.9, "10"), (1.13, 10.4, "40")]
    other = [(1.12, 10.1, "0.1"), (1.196, 4.3, "0.2"), (1.195, 10.1, "0.3")]
    curves = [
        Series(name, "curve", [Point(x, Measure(y), tag) for x, y, tag in points], style)
        for style, (name, points) in enumerate({"PCG": group, "SSD": other}.items())
    ]
    canvas = _canvas(figure(Plot("p", "x", "y", curves)))
    canvas.draw_without_rendering()  # type: ignore[no-untyped-call]
    (axes,) = canvas.axes
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == len(group) + len(other)
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    for line in axes.lines:
        xs = list(line.get_xdata())
        assert xs == sorted(xs)


def test_marks_and_papers_points_have_markers_of_their_own_and_labels_fit() -> None:
    """PCG's figure 2: three papers' points were one circle, and its right x axis was cut."""
    alike = [
        Series(f"{kind} {i}", kind, [Point(1.0 + i, Measure(0.5))])
        for kind in ("mark", "published")
        for i in range(3)
    ]
    label = "speedup by acceptance length (no timing noise)"
    canvas = _canvas(figure(Plot("p", label, "y", [CURVE, *alike]), columns=1))
    canvas.draw_without_rendering()  # type: ignore[no-untyped-call]
    (axes,) = canvas.axes
    shapes = {line.get_label(): (line.get_marker(), line.get_mfc()) for line in axes.lines}
    assert len({shapes[one.label] for one in alike}) == 6
    assert axes.xaxis.label.get_text().count("\n") == 1
    box = axes.xaxis.label.get_window_extent()
    assert canvas.bbox.x0 <= box.x0 < box.x1 <= canvas.bbox.x1


def test_a_papers_points_outside_the_axes_are_told_in_the_legend() -> None:
    """PCG's figure 2: two of the paper's three were in the legend and nowhere else."""
    far = Series("far", "published", [Point(1.0, Measure(9.0)), Point(2.0, Measure(8.5))])
    (axes,) = _canvas(figure(Plot("p", "x", "y", [CURVE, PAPER, far]))).axes
    legend = axes.get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["ours", "paper", "far, outside at 8.5 to 9"]


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
