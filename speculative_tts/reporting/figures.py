"""Draws finished figures with matplotlib.

Colours are Okabe and Ito's, which people with any colour vision tell apart, and each has its own
marker. Files are the same whenever the points are: no dates, fixed ids.
"""

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure as Canvas
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from speculative_tts.reporting.fill_figure import Figure, Plot, Point, Series
from speculative_tts.reporting.labels import Label, Placing, Spot

Array = npt.NDArray[np.float64]
Limits = tuple[float, float, float, float]  # left, right, bottom, top

STYLES = (
    ("#0072B2", "o"),
    ("#D55E00", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
    ("#E69F00", "v"),
    ("#56B4E9", "<"),
)
MARKS = "*PXph8"  # of systems that are one point
FAR = 1.0  # ranges of our points that a paper's may lie outside them; beyond it would flatten ours
PAPER = "#767676"
INK = "#333333"
WIDTH, HEIGHT = 3.35, 2.6  # inches a plot: a column of a paper
DPI = 200
SIZE, TAG_SIZE = 8, 7  # points at print size: of names, and of the values beside points
SETTINGS: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": SIZE,
    "axes.titlesize": SIZE,
    "axes.labelsize": SIZE,
    "xtick.labelsize": SIZE,
    "ytick.labelsize": SIZE,
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
    "svg.hashsalt": "speculative_tts",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
}


def draw(figure: Figure) -> dict[str, bytes]:
    r"""Return the figure's files: PNG and SVG of all plots, and a PDF with a page a plot.

    A page is as wide as a column: `\includegraphics[page=2]{frontier.pdf}` is the second plot. Of
    several plots the first is a PNG by itself too. Plots that no run fills are left out, if others
    are filled.
    """
    figure = replace(figure, plots=[one for one in figure.plots if _shown(one)] or figure.plots)
    with mpl.rc_context(SETTINGS):  # type: ignore[arg-type]
        canvas, alone = _canvas(figure), [replace(figure, plots=[plot]) for plot in figure.plots]
        svg, pdf = io.BytesIO(), io.BytesIO()
        canvas.savefig(svg, format="svg", metadata={"Date": None})
        with PdfPages(pdf, metadata={"CreationDate": None}) as pages:
            for one in alone:
                pages.savefig(_canvas(one))
        files = {"png": _png(canvas), "svg": svg.getvalue(), "pdf": pdf.getvalue()}
        return files | ({"first.png": _png(_canvas(alone[0]))} if len(alone) > 1 else {})


def _png(canvas: Canvas) -> bytes:
    """Return a canvas as a PNG that is the same whenever it is drawn."""
    png = io.BytesIO()
    canvas.savefig(png, format="png", dpi=DPI, metadata={"Software": None})
    return png.getvalue()


def _canvas(figure: Figure) -> Canvas:
    columns = min(figure.columns, len(figure.plots))
    rows = -(-len(figure.plots) // columns)
    canvas = Canvas(
        figsize=(WIDTH * columns, HEIGHT * rows),
        layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06),
    )
    FigureCanvasAgg(canvas)
    grid = canvas.subplots(rows, columns, squeeze=False)
    for axes, plot in zip(grid.flat, figure.plots, strict=False):
        _draw_plot(axes, plot)
    for axes in list(grid.flat)[len(figure.plots) :]:
        axes.set_visible(False)
    canvas.draw_without_rendering()  # axes get their size
    canvas.set_layout_engine("none")
    for axes, plot in zip(grid.flat, figure.plots, strict=False):
        _label(axes, plot)
    return canvas


def _draw_plot(axes: Axes, plot: Plot) -> None:
    for series in plot.series:
        DRAW[series.kind](axes, series, plot)
    if plot.ceiling is not None:
        ends = [min(plot.sweep), max(plot.sweep)]
        axes.plot(ends, [x + 1 for x in ends], color=PAPER, ls=":", lw=1.2)
    if plot.chosen is not None:
        axes.axvline(plot.chosen, color=PAPER, ls=":", lw=1.0, zorder=1)
    axes.set(xlabel=_wrapped(plot.x_label, 44), ylabel=_wrapped(plot.y_label))
    if plot.sweep:
        axes.set_xticks(list(plot.sweep))
        axes.margins(x=0.06)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
    axes.set_title(plot.title)
    _frame(axes, plot)


def _frame(axes: Axes, plot: Plot) -> None:
    """Leave room around the points; begin at 0 where that costs little room."""
    values = _shown(plot)
    if not values:
        axes.text(0.5, 0.5, "no runs yet", transform=axes.transAxes, ha="center", color=PAPER)
        return
    low, high = min(values), max(values)
    room = 0.12 * ((high - low) or abs(high) or 1.0)  # for labels too
    bottom = 0.0 if 0 <= low < 0.5 * high else low - room
    axes.set_ylim(bottom, high + room)


def _shown(plot: Plot) -> list[float]:
    """Return the values that the axes must include: all of ours, and the papers' that lie near."""
    papers, ours = (
        [
            value
            for series in plot.series
            if (series.kind == "published") is published
            for point in series.points
            for value in (point.y.value, point.y.low, point.y.high)
            if value is not None
        ]
        for published in (True, False)
    )
    if not ours:
        return papers
    room = FAR * (max(ours) - min(ours) or abs(ours[0]))
    return [*ours, *(v for v in papers if min(ours) - room <= v <= max(ours) + room)]


def _wrapped(label: str, longest: int = 26) -> str:
    """Break a long label before its brackets."""
    return label if len(label) <= longest else label.replace(" (", "\n(", 1)


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
        label=series.label,
        zorder=4,
    )


def _with_outside(series: Series, shown: Sequence[float]) -> str:
    """Return a paper's label, with the place of its points if the axes have none of them."""
    ys = [point.y.value for point in series.points if point.y.value is not None]
    low, high = min(ys), max(ys)
    if any(min(shown) <= y <= max(shown) for y in ys):
        return series.label
    xs = {point.x for point in series.points}
    place = f"{low:g}{f' to {high:g}' if high > low else ''}"
    return f"{series.label}, outside at {place}" + (f" (x = {xs.pop():g})" if len(xs) == 1 else "")


def _bars(axes: Axes, points: Sequence[Point], color: str) -> None:
    for point in points:
        if point.y.low is not None and point.y.high is not None:
            axes.vlines(point.x, point.y.low, point.y.high, color=color, lw=1.0, alpha=0.5)


def _label(axes: Axes, plot: Plot) -> None:
    """Write the swept value beside each point, and the name of each series beside its points."""
    limits = (*axes.get_xlim(), *axes.get_ylim())
    shown = {one.label: _visible(one, limits) for one in plot.series}
    marks = [spot for points in shown.values() for spot in points]
    placing = Placing(axes, marks, [*map(sorted, shown.values()), *_straight(plot, limits)])
    curves = [one for one in plot.series if one.kind in {"curve", "scatter"}]
    for one in () if plot.sweep else curves:
        for point in one.points:
            at = (point.x, point.y.value or 0.0)
            placing.place(Label(point.tag, [at], _color(one), TAG_SIZE))
    for one in plot.series:
        if one.points:
            name = _with_outside(one, _shown(plot)) if one.kind == "published" else one.label
            placing.place(Label(name, shown[one.label], _color(one), SIZE))
    if plot.ceiling is not None:
        spots = [(x, x + 1) for x in plot.sweep if limits[2] <= x + 1 <= limits[3]]
        placing.place(Label(plot.ceiling, spots, PAPER, SIZE))


def _visible(series: Series, limits: Limits) -> list[Spot]:
    """Return where a series can be named: its points inside the axes, or places along a level."""
    x0, x1, y0, y1 = limits
    if series.kind == "level":
        at = series.points[0].y.value or 0.0
        return [(x0 + (x1 - x0) * part, at) for part in (0.9, 0.7, 0.5, 0.3, 0.1)]
    points = [(p.x, p.y.value) for p in series.points if p.y.value is not None]
    return [(x, y) for x, y in sorted(points, reverse=True) if x0 <= x <= x1 and y0 <= y <= y1]


def _straight(plot: Plot, limits: Limits) -> list[list[Spot]]:
    """Return the lines of a plot beside its curves: levels, and bars of single points."""
    lines = []
    for one in plot.series:
        for p in one.points:
            if one.kind == "level" and p.y.value is not None:
                lines.append([(limits[0], p.y.value), (limits[1], p.y.value)])
            elif one.kind in {"scatter", "mark"} and p.y.low is not None and p.y.high is not None:
                lines.append([(p.x, p.y.low), (p.x, p.y.high)])
    return lines


def _color(series: Series) -> str:
    """Return the colour of a series' marks and labels."""
    if series.kind in {"curve", "scatter"}:
        return STYLES[series.style % len(STYLES)][0]
    return PAPER if series.kind == "published" else INK


DRAW = {
    "curve": _draw_curve,
    "scatter": _draw_scatter,
    "level": _draw_level,
    "mark": _draw_mark,
    "published": _draw_published,
}
