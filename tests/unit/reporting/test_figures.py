"""Figures are drawn without warnings (pytest makes them errors), whatever points there are."""

import io
import struct
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.axes import Axes
from matplotlib.text import Text
from shipped import figure as read_figure
from synthetic_runs import make_run

from speculative_tts.evaluation.statistics import Measure
from speculative_tts.reporting.definitions import FigureDefinition
from speculative_tts.reporting.experiments import TINY
from speculative_tts.reporting.figures import DPI, HEIGHT, SETTINGS, WIDTH, _canvas, draw
from speculative_tts.reporting.fill_figure import Figure, Plot, Point, Series, fill_figure
from speculative_tts.reporting.needs import choose
from speculative_tts.reporting.runs import find_runs
from speculative_tts.reporting.shown import REPORTS

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
    assert set(files) == {"png", "svg", "pdf"}
    assert files["pdf"].startswith(b"%PDF")
    assert min(size(files["png"])) > 400
    assert files["svg"].startswith(b"<?xml")
    assert b"<dc:date>" not in files["svg"]
    assert draw(figure(plot)) == files


def test_a_plot_without_points_of_runs_is_left_out(tmp_path: Path) -> None:
    """Figures of runs that nothing timed had a blank panel, or the papers' points alone."""
    assert [Plot("p", "x", "y", [one]).empty for one in (CURVE, MARK, LEVEL, PAPER)] == [
        False, True, True, True,
    ]  # fmt: skip
    for beta in (0.1, 0.3):
        make_run(tmp_path, "speculative", rule="tolerance", beta=beta)
    (definition,) = (one for one in REPORTS["pcg"](TINY).figures if one.name == "figure2")
    timed, length, *_ = definition.axes
    asked = replace(definition, axes=[timed, length, replace(length, title="of people", y="mos")])
    filled = fill_figure(asked, choose(find_runs(tmp_path), asked.needs()))
    assert [plot.title for plot in filled.plots] == [timed.title, length.title]


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
    assert len(boxes) == len(group) + len(other) + 2  # the curves' names
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
    label = "speedup over the target alone (measured, a long one)"
    canvas = _canvas(figure(Plot("p", label, "y", [CURVE, *alike]), columns=1))
    canvas.draw_without_rendering()  # type: ignore[no-untyped-call]
    (axes,) = canvas.axes
    shapes = {line.get_label(): (line.get_marker(), line.get_mfc()) for line in axes.lines}
    assert len({shapes[one.label] for one in alike}) == 6
    assert axes.xaxis.label.get_text().count("\n") == 1
    box = axes.xaxis.label.get_window_extent()
    assert canvas.bbox.x0 <= box.x0 < box.x1 <= canvas.bbox.x1


def test_a_papers_points_outside_the_axes_are_told() -> None:
    """PCG's figure 2: two of the paper's three were in the legend and nowhere else."""
    far = Series("far", "published", [Point(1.0, Measure(9.0)), Point(2.0, Measure(8.5))])
    once = Series("once", "published", [Point(1.4, Measure(13.8))])
    (axes,) = _canvas(figure(Plot("p", "x", "y", [CURVE, PAPER, far, once]))).axes
    names = {text.get_text() for text in axes.texts}
    outside = {"far, outside at 8.5 to 9", "once, outside at 13.8 (x = 1.4)"}
    assert names == {"1", "2", "ours", "paper"} | outside


def test_plots_that_no_run_fills_are_left_out_where_others_are_filled() -> None:
    """Two of three panels of a figure said "no runs yet"."""
    empty, filled = Plot("e", "x", "y", []), Plot("p", "x", "y", [CURVE])
    assert draw(figure(empty, filled)) == draw(figure(filled))
    assert draw(figure(empty))["png"]


def title_of(axes: Axes) -> Text:
    """The title, which stands at the left."""
    left = axes.get_title(loc="left")
    texts = [one for one in axes.get_children() if isinstance(one, Text)]
    return next(one for one in texts if one.get_text() == left)


SHIPPED = sorted((Path(__file__).resolve().parents[3] / "results").rglob("runs.json"))


@pytest.mark.parametrize(
    ("folder", "definition"),
    [
        pytest.param(path.parent, one, id=f"{path.parent.name}-{one.name}")
        for path in SHIPPED
        for name in (path.parent.name, path.parents[1].name)
        if name in REPORTS
        for one in REPORTS[name](TINY).figures
        if (path.parent / f"{one.name}.csv").is_file()
    ],
)
def test_no_two_labels_overlap_and_nothing_is_cut(
    folder: Path, definition: FigureDefinition
) -> None:
    """frontier.png had titles at three heights, and labels over each other and over the axis."""
    shipped = read_figure(folder, definition)
    for plots in (shipped.plots, *([one] for one in shipped.plots)):
        with mpl.rc_context(SETTINGS):
            canvas = _canvas(replace(shipped, plots=plots))
            visible = [axes for axes in canvas.axes if axes.get_visible()]
            for axes in visible:
                boxes = [text.get_window_extent() for text in axes.texts]
                assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
                frame = axes.get_window_extent().padded(1)
                assert all(frame.containsx(b.x0) and frame.containsx(b.x1) for b in boxes)
                assert all(frame.containsy(b.y0) and frame.containsy(b.y1) for b in boxes)
                outer = [title_of(axes), axes.xaxis.label, axes.yaxis.label]
                for text in (*outer, *axes.get_xticklabels(), *axes.get_yticklabels()):
                    assert text.get_fontsize() >= 8
                for box in (text.get_window_extent() for text in outer):
                    assert canvas.bbox.x0 <= box.x0 < box.x1 <= canvas.bbox.x1
                    assert canvas.bbox.y0 <= box.y0 < box.y1 <= canvas.bbox.y1
            heights = {
                round(title_of(a).get_window_extent().y0) for a in visible[: shipped.columns]
            }
            assert len(heights) == 1


def test_a_full_plot_says_that_it_has_no_room(caplog: pytest.LogCaptureFixture) -> None:
    """The search for a place must be able to fail; a whole report once failed with it."""
    crowd = [Point(1.0 + i / 1000, Measure(1.0), "a long label of a point") for i in range(200)]
    _canvas(figure(Plot("p", "x", "y", [Series("ours", "scatter", crowd)])))
    assert "has no place for the label 'a long label of a point'; its table" in caplog.text


def test_plots_fill_rows() -> None:
    plot = Plot("p", "x", "y", [CURVE], sweep=[1, 2])
    wide, tall = (
        size(draw(figure(plot, plot, plot))["png"]),
        size(draw(figure(plot, plot, plot, columns=2))["png"]),
    )
    assert wide[0] > tall[0]
    assert wide[1] < tall[1]


def test_the_first_of_several_plots_is_a_column_by_itself() -> None:
    """README showed three panels side by side, too small to read at the width of its column."""
    plot, other = (Plot(name, "x", "y", [CURVE], sweep=[1, 2]) for name in ("p", "q"))
    both, alone = draw(figure(plot, other)), draw(figure(plot))
    assert both["first.png"] == alone["png"]
    assert size(alone["png"]) == (WIDTH * DPI, HEIGHT * DPI)
    assert "first.png" not in alone
