"""A figure's definition and the runs at hand become the points of a plot."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from speculative_tts.evaluation.statistics import Measure
from speculative_tts.reporting.captions import around, definitions, intervals, judge_name
from speculative_tts.reporting.checkpoints import layer_notes
from speculative_tts.reporting.definitions import Axes, Curve, FigureDefinition, Published
from speculative_tts.reporting.needs import Chosen, Need
from speculative_tts.reporting.quantities import quantity
from speculative_tts.reporting.runs import Run, measured
from speculative_tts.reporting.tables import Printed, csv_text, exact


@dataclass(frozen=True)
class Point:
    """A run in a plot. `tag` is the value of the swept key."""

    x: float
    y: Measure
    tag: str = ""


OURS = ("curve", "scatter")  # kinds of series that a plot is for


@dataclass(frozen=True)
class Series:
    """Points that belong together.

    `kind` is curve, scatter (no line through its points), published, level (a horizontal line) or
    mark (a level where x is a quantity).
    """

    label: str
    kind: str
    points: Sequence[Point]
    style: int = 0


@dataclass(frozen=True)
class Plot:
    """One finished plot; `sweep` holds the swept values for the ticks, if x is a swept key.

    `ceiling` labels a line y = x + 1; `chosen` is the paper's choice of x.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    sweep: Sequence[float] = ()
    ceiling: str | None = None
    chosen: float | None = None

    @property
    def empty(self) -> bool:
        """True if no curve has a point."""
        return not any(one.points for one in self.series if one.kind in OURS)


@dataclass(frozen=True)
class Figure(Printed):
    """A finished figure."""

    plots: Sequence[Plot] = ()
    columns: int = 3  # plots a row

    @property
    def empty(self) -> bool:
        """True if no curve has a point."""
        return all(plot.empty for plot in self.plots)


def fill_figure(definition: FigureDefinition, chosen: Chosen) -> Figure:
    """Return the figure made of the results of its needs, without plots whose curves have none."""
    results = list(chosen.results.values())
    axes = [replace(one, y=measured(one.y, results)) for one in definition.axes]
    definition = replace(definition, axes=axes)
    shown = {curve.y or axes.y for axes in definition.axes for curve in axes.curves}
    shown |= {axes.x for axes in definition.axes if axes.x}
    caption = [
        f"Bands and bars: {intervals(shown, results)}",
        *_seeds(definition, chosen),
        *definitions(shown, results),
    ]
    notes = [*definition.notes, *layer_notes(chosen.runs)]
    plots = [plot for axes in definition.axes if not (plot := _plot(axes, chosen)).empty]
    return Figure(
        **around(definition, chosen, caption, notes), plots=plots, columns=definition.columns
    )


def _seeds(definition: FigureDefinition, chosen: Chosen) -> list[str]:
    """Name the seeds of each curve and level, in one line."""
    keys = {
        curve.label: list(curve.points()) for axes in definition.axes for curve in axes.curves
    } | {level.label: [level.label] for axes in definition.axes for level in axes.levels}
    labels: dict[str, list[str]] = {}
    for label, points in keys.items():
        runs = [run for key in points for run in chosen.filled.get(key, ())]
        if runs:
            seeds = ", ".join(map(str, sorted({run.seed for run in runs})))
            labels.setdefault(seeds, []).append(label)
    if len(labels) < 2:
        return [f"Seeds: {seeds}." for seeds in labels]
    texts = [f"{seeds} ({', '.join(names)})" for seeds, names in labels.items()]
    return [f"Seeds: {'; '.join(texts)}."]


def figure_csv(figure: Figure) -> str:
    """Return a line for each point: plot, series, kind, tag, x, y, low, high, n."""
    rows = [
        (plot.title, s.label, s.kind, p.tag, *map(exact, _numbers(p)), p.y.n or "")
        for plot in figure.plots
        for s in plot.series
        for p in s.points
    ]
    return csv_text([("plot", "series", "kind", "tag", "x", "y", "low", "high", "n"), *rows])


def _numbers(point: Point) -> tuple[float | None, ...]:
    x = None if point.x != point.x else point.x  # a level has no x
    return x, point.y.value, point.y.low, point.y.high


def _plot(axes: Axes, chosen: Chosen) -> Plot:
    series = [_curve(curve, axes, chosen) for curve in axes.curves]
    series += [one for level in axes.levels if (one := _level(level, axes, chosen))]
    series += [_published(one) for one in axes.published]
    return plotted(axes, series, chosen.results.values())


def plotted(axes: Axes, series: Sequence[Series], results: Collection[Run]) -> Plot:
    """Return the plot of these series: what an axis is called, what its marks are."""
    y = measured(axes.y, results)
    return Plot(
        axes.title,
        axes.x_label or (quantity(axes.x).axis() if axes.x else axes.curves[0].key),
        axes.y_label or quantity(y).axis(judge_name(y, results)),
        series,
        () if axes.x else [float(value) for value in axes.curves[0].values],
        axes.ceiling,
        axes.chosen,
    )


def _curve(curve: Curve, axes: Axes, chosen: Chosen) -> Series:
    name = curve.y or axes.y
    points = []
    for value, key in zip(curve.values, curve.points(), strict=True):
        if key not in chosen.results:
            continue
        found = chosen.results[key]
        y = found.measure(name).scaled(quantity(name).scale)
        x = found.measure(axes.x).scaled(quantity(axes.x).scale).value if axes.x else float(value)
        if y.value is not None and x is not None:
            points.append(Point(x, y, tag(value)))
    return Series(curve.label, curve.kind, points, curve.style)


def tag(value: object) -> str:
    """Return how a point is named by the value of the swept key."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def level_kind(axes: Axes) -> str:
    """Return the kind of a level: a line, or a mark where x is a quantity."""
    return "mark" if axes.x else "level"


def _level(level: Need, axes: Axes, chosen: Chosen) -> Series | None:
    if level.label not in chosen.results:
        return None
    found = chosen.results[level.label]

    def measure(name: str) -> Measure:
        fixed = level.fixed.get(name)
        own = found.measure(name) if fixed is None else Measure(fixed)
        return own.scaled(quantity(name).scale)

    y, x = measure(axes.y), measure(axes.x).value if axes.x else float("nan")
    if y.value is None or x is None:
        return None
    return Series(level.label, level_kind(axes), [Point(x, y, level.label)])


def _published(one: Published) -> Series:
    points = [Point(x, Measure(y)) for x, y in zip(one.x, one.y, strict=True)]
    return Series(one.label, "published", points)
