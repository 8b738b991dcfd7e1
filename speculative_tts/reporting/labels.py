"""Put labels of a plot beside what they name, where they cover no mark and no other label.

Places are boxes (left, bottom, right, top) in points of the page; text sizes are measured.
"""

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.text import Text

Box = tuple[float, float, float, float]
Spot = tuple[float, float]
MARK = 3.5  # half of a marker's size, in points
REACHES = (5, 9, 14, 20, 28, 38, 50)  # how far from its point a label may begin
LEADS = 14  # a label that begins farther off has a line to its point
GRID = 12  # steps of the search for any free place
INK = "#333333"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Label:
    """A text that names one of these points (in data), or nothing visible."""

    text: str
    points: Sequence[Spot]
    color: str
    size: float


class Placing:
    """The free places of one plot whose axes have their final size."""

    def __init__(self, axes: Axes, marks: Iterable[Spot], lines: Iterable[Sequence[Spot]]) -> None:
        self.axes = axes
        canvas = axes.figure.canvas
        assert isinstance(canvas, FigureCanvasAgg)
        self.renderer: RendererAgg = canvas.get_renderer()  # type: ignore[no-untyped-call]
        self.scale = 72 / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
        frame = axes.get_window_extent()
        left, bottom, right, top = (
            one * self.scale for one in (frame.x0, frame.y0, frame.x1, frame.y1)
        )
        self.inside: Box = (left + 2, bottom + 2, right, top)
        self.taken = [
            (x - MARK, y - MARK, x + MARK, y + MARK) for x, y in map(self._on_page, marks)
        ]
        self.lines = [
            spot for line in lines for spot in _walk([self._on_page(one) for one in line])
        ]

    def _on_page(self, point: Spot) -> Spot:
        x, y = self.axes.transData.transform(point) * self.scale
        return float(x), float(y)

    def place(self, label: Label) -> Text | None:
        """Write a label at the best free place; without one leave it out and say so."""
        text = self.axes.annotate(
            label.text, (0, 0), fontsize=label.size, color=label.color, annotation_clip=False
        )
        extent = text.get_window_extent(self.renderer)
        width, height = extent.width * self.scale + 1, extent.height * self.scale
        anchors = [self._on_page(point) for point in label.points]
        best = min(
            (
                (self._cost(box, reach), reach, box, anchor)
                for reach, box, anchor in self._places(anchors, width, height)
                if self._free(box)
            ),
            default=None,
        )
        text.remove()
        if best is None:
            logger.warning("a plot has no place for the label %r; its table has it", label.text)
            return None
        _, reach, box, anchor = best
        self.taken.append(box)
        return self._write(label, box, anchor if anchors and reach > LEADS else None)

    def _places(
        self, anchors: Sequence[Spot], width: float, height: float
    ) -> Iterator[tuple[float, Box, Spot]]:
        """Yield places around each anchor, then all over the plot, and how far off they are."""
        for x, y in anchors:
            for reach in REACHES:
                for turn in range(16):
                    dx, dy = math.cos(turn * math.pi / 8), math.sin(turn * math.pi / 8)
                    left = x + dx * reach + (dx - 1) / 2 * width
                    low = y + dy * reach + (dy - 1) / 2 * height
                    yield reach, (left, low, left + width, low + height), (x, y)
        left, bottom, right, top = self.inside
        for low in np.linspace(top - height, bottom, GRID):
            for at in np.linspace(left + 2, right - width, GRID):
                box = (float(at), float(low), float(at) + width, float(low) + height)
                near = min(anchors, key=lambda one: _distance(one, box), default=(at, low))
                yield 60 + _distance(near, box), box, near

    def _free(self, box: Box) -> bool:
        left, bottom, right, top = self.inside
        inside = left <= box[0] and bottom <= box[1] and box[2] <= right and box[3] <= top
        return inside and not any(overlap(box, one) for one in self.taken)

    def _cost(self, box: Box, reach: float) -> float:
        """Return how far a place is, and how much of lines it covers."""
        x0, y0, x1, y1 = box
        return reach + 3 * sum(x0 < x < x1 and y0 < y < y1 for x, y in self.lines)

    def _write(self, label: Label, box: Box, leads_to: Spot | None) -> Text:
        def in_data(spot: Spot) -> Spot:
            x, y = self.axes.transData.inverted().transform(np.array(spot) / self.scale)
            return float(x), float(y)

        if leads_to:
            end = (min(max(leads_to[0], box[0]), box[2]), min(max(leads_to[1], box[1]), box[3]))
            (xs, ys) = zip(in_data(leads_to), in_data(end), strict=True)
            self.axes.plot(xs, ys, color=INK, lw=0.4, alpha=0.5, zorder=2, label="_line")
        return self.axes.text(
            *in_data((box[0], box[1])),
            label.text,
            fontsize=label.size,
            color=label.color,
            va="bottom",
            zorder=5,
        )


def overlap(a: Box, b: Box) -> bool:
    """Tell if two boxes share an area."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _distance(spot: Spot, box: Box) -> float:
    x, y = spot
    dx, dy = max(box[0] - x, 0, x - box[2]), max(box[1] - y, 0, y - box[3])
    return math.hypot(dx, dy)


def _walk(line: Sequence[Spot]) -> Iterator[Spot]:
    """Yield points of a line, about three points of the page apart."""
    for (ax, ay), (bx, by) in pairwise(line):
        steps = max(1, int(math.hypot(bx - ax, by - ay) / 3))
        yield from ((ax + (bx - ax) * k / steps, ay + (by - ay) * k / steps) for k in range(steps))
