"""Draws finished figures with matplotlib.

Colours are Okabe and Ito's, which people with any colour vision tell apart, and each has its own
marker. Files are the same whenever the points are: no dates, fixed ids.
"""

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from speculative_tts.reporting.fill_figure import Figure, Plot, Point, Series

Array = npt.NDArray[np.float64]
Box = tuple[float, ...]  # left, bottom, right, top

STYLES = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#E69F00", "v"))
MARKS = "*PXph8"  # of systems that are one point
FAR = 1.0  # ranges of our points that a paper's may lie outside them; beyond it would flatten ours
PAPER = "#767676"
INK = "#333333"
LONG_LABEL = 17  # characters; two such columns would be wider than a panel
WIDTH, HEIGHT = 3.6, 3.0  # inches a plot
DPI = 160
ROOM = np.array([0.8 * WIDTH, 0.58 * HEIGHT]) * 72  # points inside a plot's axes, roughly
TAG_SIZE = 7.5
SETTINGS: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelcolor": INK,
    "axes.edgecolor": "#999999",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.handlelength": 1.8,
    "svg.hashsalt": "speculative_tts",
    "svg.fonttype": "path",
}


def draw(figure: Figure) -> dict[str, bytes]:
    """The figure as files: {"png": bytes, "svg": bytes}."""
    with mpl.rc_context(SETTINGS):  # type: ignore[arg-type]
        canvas = _canvas(figure)
        png, svg = io.BytesIO(), io.BytesIO()
        canvas.savefig(png, format="png", dpi=DPI, metadata={"Software": None})
        canvas.savefig(svg, format="svg", metadata={"Date": None})
    return {"png": png.getvalue(), "svg": svg.getvalue()}


def _canvas(figure: Figure) -> Canvas:
    columns = min(figure.columns, len(figure.plots))
    rows = -(-len(figure.plots) // columns)
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)
    zoom = 1.35 if len(figure.plots) == 1 else 1.0
    size = (WIDTH * columns * zoom, HEIGHT * rows * zoom)
    canvas = Canvas(figsize=size, layout=layout)
    FigureCanvasAgg(canvas)
    grid = canvas.subplots(rows, columns, squeeze=False)
    for axes, plot in zip(grid.flat, figure.plots, strict=False):
        _draw_plot(axes, plot)
    for axes in list(grid.flat)[len(figure.plots) :]:
        axes.set_visible(False)
    return canvas


def _draw_plot(axes: Axes, plot: Plot) -> None:
    for series in plot.series:
        DRAW[series.kind](axes, series, plot)
    if plot.ceiling is not None:
        ends = [min(plot.sweep), max(plot.sweep)]
        axes.plot(ends, [x + 1 for x in ends], color=PAPER, ls=":", lw=1.2, label=plot.ceiling)
    if plot.chosen is not None:
        axes.axvline(plot.chosen, color=PAPER, ls=":", lw=1.0, zorder=1)
    axes.set(xlabel=_wrapped(plot.x_label, 44), ylabel=_wrapped(plot.y_label))
    if plot.sweep:
        axes.set_xticks(list(plot.sweep))
        axes.margins(x=0.06)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
    _frame(axes, plot)
    if not plot.sweep:
        _tags(axes, plot)
    _legend(axes, plot.title)


def _frame(axes: Axes, plot: Plot) -> None:
    """Room around the points; from 0 where that costs little room or the numbers are shares."""
    values = _shown(plot)
    if not values:
        axes.text(0.5, 0.5, "no runs yet", transform=axes.transAxes, ha="center", color=PAPER)
        return
    low, high = min(values), max(values)
    room = 0.08 * ((high - low) or abs(high) or 1.0)
    bottom = 0.0 if 0 <= low < 0.5 * high else low - room
    axes.set_ylim(bottom, high + room)


def _shown(plot: Plot) -> list[float]:
    """What must be inside: all of ours, and of the papers' what lies near."""
    papers, ours = (
        [
            value
            for series in plot.series
            if (series.kind == "published") is published
            for point in series.points
            for value in _extent(point)
            if value is not None
        ]
        for published in (True, False)
    )
    if not ours:
        return papers
    room = FAR * (max(ours) - min(ours) or abs(ours[0]))
    return [*ours, *(v for v in papers if min(ours) - room <= v <= max(ours) + room)]


def _legend(axes: Axes, title: str) -> None:
    """Title, and between it and the axes the legend, where it hides no point."""
    handles, labels = axes.get_legend_handles_labels()
    longest = max(map(len, labels), default=0)
    columns = 1 if longest > LONG_LABEL else 2
    lines = -(-len(handles) // columns) if len(handles) > 1 else 0
    if lines:
        axes.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(-0.02, 1.0),
            ncols=columns,
            borderaxespad=0.3,
            columnspacing=1.2,
        )
    axes.set_title(title, pad=8 + 14 * lines)


def _wrapped(label: str, longest: int = 26) -> str:
    """A long label on two lines, what stands in brackets on the second."""
    return label if len(label) <= longest else label.replace(" (", "\n(", 1)


def _extent(point: Point) -> Sequence[float | None]:
    return point.y.value, point.y.low, point.y.high


def _draw_curve(axes: Axes, series: Series, plot: Plot) -> None:
    if not series.points:
        return
    color, marker = STYLES[series.style % len(STYLES)]
    points = series.points if plot.sweep else sorted(series.points, key=lambda point: point.x)
    x, y = _xy(points)
    axes.plot(x, y, color=color, marker=marker, ms=5, lw=1.6, label=series.label, zorder=3)
    known = [(p.x, p.y.low, p.y.high) for p in series.points]
    band = sorted((x, a, b) for x, a, b in known if a is not None and b is not None)
    if band:
        x, low, high = np.array(band, dtype=float).T
        axes.fill_between(x, low, high, color=color, alpha=0.16, lw=0, zorder=2)


def _draw_scatter(axes: Axes, series: Series, _plot: Plot) -> None:
    if not series.points:
        return
    color, marker = STYLES[series.style % len(STYLES)]
    x, y = _xy(series.points)
    axes.plot(x, y, color=color, marker=marker, ms=6, ls="", label=series.label, zorder=4)
    _bars(axes, series.points, color)


def _xy(points: Sequence[Point]) -> tuple[Array, Array]:
    """Coordinates of points."""
    x, y = np.array([(p.x, p.y.value) for p in points], dtype=float).T
    return x, y


def _draw_level(axes: Axes, series: Series, _plot: Plot) -> None:
    level = series.points[0].y
    assert level.value is not None
    axes.axhline(level.value, color=INK, lw=1.2, ls="--", label=series.label, zorder=2)
    if level.low is not None and level.high is not None:
        axes.axhspan(level.low, level.high, color=INK, alpha=0.07, lw=0, zorder=1)


def _draw_mark(axes: Axes, series: Series, plot: Plot) -> None:
    x, y = _xy(series.points)
    others = [one for one in plot.series if one.kind == "mark"]
    marker = MARKS[others.index(series) % len(MARKS)]
    (made,) = axes.plot(x, y, color=INK, marker=marker, ms=9, ls="", label=series.label, zorder=4)
    made.set_clip_on(False)  # whole on the axis too
    _bars(axes, series.points, INK)


def _draw_published(axes: Axes, series: Series, plot: Plot) -> None:
    x, y = _xy(series.points)
    others = [one for one in plot.series if one.kind == "published"]
    line = (0, (4, 2)) if len(x) > 1 else ""
    axes.plot(
        x,
        y,
        color=PAPER,
        marker=STYLES[others.index(series) % len(STYLES)][1],
        mfc="white",
        ms=6,
        lw=1.2,
        ls=line,
        label=_with_outside(series, _shown(plot)),
        zorder=4,
    )


def _with_outside(series: Series, shown: Sequence[float]) -> str:
    """A paper's label, and at which y its points are if the axes have none of them."""
    ys = [point.y.value for point in series.points if point.y.value is not None]
    low, high = min(ys), max(ys)
    if any(min(shown) <= y <= max(shown) for y in ys):
        return series.label
    return f"{series.label}, outside at {low:g}{f' to {high:g}' if high > low else ''}"


def _bars(axes: Axes, points: Sequence[Point], color: str) -> None:
    for point in points:
        if point.y.low is not None and point.y.high is not None:
            axes.vlines(point.x, point.y.low, point.y.high, color=color, lw=1.0, alpha=0.5)


def _tags(axes: Axes, plot: Plot) -> None:
    """The swept value beside each point of a curve, where it covers least of points and tags."""
    curves = [one for one in plot.series if one.kind in {"curve", "scatter"}]
    marked = [p for one in plot.series if one.kind != "level" for p in one.points]
    limits = np.array([axes.get_xlim(), axes.get_ylim()])

    def place(point: Point) -> Array:
        at = np.array([point.x, point.y.value], dtype=float)
        inside: Array = ROOM * (at - limits[:, 0]) / (limits[:, 1] - limits[:, 0])
        return inside

    taken = [(*(place(p) - 3), *(place(p) + 3)) for p in marked]
    taken += [(0, -100, ROOM[0], 0), (-100, -100, 0, 2 * ROOM[1])]  # numbers of the axes
    for series in curves:
        for point in series.points:
            x, y = place(point)
            width = TAG_SIZE * 0.64 * len(point.tag)
            offsets = [
                (dx, dy) for dy in (-11, 5, -20, 14, -3) for dx in (5, -5 - width, -width / 2)
            ]
            boxes = [(x + dx, y + dy, x + dx + width, y + dy + TAG_SIZE) for dx, dy in offsets]
            best = min(range(len(boxes)), key=lambda i: sum(_shared(boxes[i], t) for t in taken))
            taken.append(boxes[best])
            axes.annotate(
                point.tag,
                (point.x, point.y.value or 0.0),
                xytext=offsets[best],
                textcoords="offset points",
                fontsize=TAG_SIZE,
                color=STYLES[series.style % len(STYLES)][0],
                arrowprops={"arrowstyle": "-", "lw": 0.5, "color": INK, "alpha": 0.5},
            )


def _shared(a: Box, b: Box) -> float:
    """Area that two boxes (left, bottom, right, top) share."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    return max(width, 0.0) * max(height, 0.0)


DRAW = {
    "curve": _draw_curve,
    "scatter": _draw_scatter,
    "level": _draw_level,
    "mark": _draw_mark,
    "published": _draw_published,
}
