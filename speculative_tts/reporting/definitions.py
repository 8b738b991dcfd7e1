"""Define tables, figures and claims: what they show and which runs they need.

A definition holds no numbers: rows and points say which configuration they need (`experiments` has
the grids), columns and axes which of `quantities` they show, and beside which column of which
published table. `papers/ssd.yaml.jinja` shows how reports are written.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from enum import Enum
from typing import Any

from speculative_tts.reporting.needs import Need
from speculative_tts.reporting.paper import NOT_PUBLISHED, PaperTable
from speculative_tts.reporting.runs import Where


@dataclass(frozen=True)
class Row(Need):
    """A system of a table.

    `paper` is its row in the published table (default: its key). A row that is not `compared` takes
    no part in paired tests: recordings are no system. A row that `times` rows of other reports
    (`report/table/key`) is of the same systems: the page takes the speed that is of more processes.
    """

    paper: str | None = None
    compared: bool = True
    rule_above: bool = False
    times: Sequence[str] = ()

    def given(self, where: Where) -> "Row":
        """Return the system under further conditions."""
        return replace(self, where={**self.where, **where})


TESTS = {  # of a difference: heading of its p
    "bootstrap": "paired bootstrap over utterances",
    "welch": "p, Welch over seeds",
    "seeds": "p, paired t over seeds",
}


@dataclass(frozen=True)
class Column:
    """A quantity; beside it the paper's column, if one is named.

    Of `a|b` the first that was measured is shown. With `against` (a row's key) the cells are the
    paired differences from that row, with interval and p of the paired bootstrap; with another
    `test` of `TESTS` its p alone. With `over` (a row's key) they are the figure divided by that
    row's, with what both intervals allow.
    """

    quantity: str
    paper: str | None = None
    against: str | None = None
    test: str = "bootstrap"
    over: str | None = None


@dataclass(frozen=True)
class Panel:
    """Columns that are shown together."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[str] | None = None  # keys; None = all


@dataclass(frozen=True)
class Definition:
    """A table or a figure by its name, and the experiment whose runs it takes."""

    name: str  # of its files
    title: str
    _: KW_ONLY
    experiment: str | None = None  # the configs/experiment file that makes its runs
    notes: Sequence[str] = ()

    def needs(self) -> Mapping[str, Need]:
        """Return the runs that it needs, by key."""
        raise NotImplementedError

    def shown(self) -> Iterator[tuple[str, str]]:
        """Yield the key of each run with every quantity that is shown or compared of it."""
        raise NotImplementedError


@dataclass(frozen=True)
class RowsDefinition(Definition):
    """A definition that takes a run for each of its rows."""

    rows: Mapping[str, Row]

    def needs(self) -> Mapping[str, Need]:
        """Return the runs that the rows need."""
        return self.rows


@dataclass(frozen=True)
class TableDefinition(RowsDefinition):
    """A table of ours beside one of a paper."""

    panels: Sequence[Panel]
    paper: PaperTable = NOT_PUBLISHED
    spread: str = "interval"  # interval, or sd: mean and standard deviation over seeds
    heard: bool = False  # of a listening test: not written before there was one

    def shown(self) -> Iterator[tuple[str, str]]:
        """Yield each row with every quantity that its cells show or compare."""
        for panel in self.panels:
            for column in panel.columns:
                beside = {column.against, column.over} - {None}
                for row in {*(panel.rows or self.rows), *beside} & {*self.rows}:
                    yield row, column.quantity


@dataclass(frozen=True)
class SpeakerTable(RowsDefinition):
    """A line a speaker, systems side by side: how evenly they speak."""

    columns: Sequence[tuple[str, str]]  # system, quantity

    def shown(self) -> Iterator[tuple[str, str]]:
        """See `Definition`."""
        yield from self.columns


class ClaimKind(Enum):
    """The kind of evidence that a claim is."""

    control = "Laws and controls: must hold if the list can show it, and say nothing for a paper"
    effect = "Effects that a paper claims: may go either way"
    own = "Effects that no paper claims: asked by this project, may go either way"
    headline = "The papers' headlines: each holds where all its parts do"


@dataclass(frozen=True)
class Claim:
    """A paper's statement, as bounds between which the 95 % interval of a figure of ours must lie.

    The figure is a quantity of the system `of`, with `minus` its paired difference to that system,
    with `over` its ratio to that system's (with what both intervals allow). It must lie
    above and below these, in the unit that tables show. `paper` is the paper's figure, `why` what
    makes ours differ where it does, `agrees` why it agrees, if not for the paper's reason.
    """

    text: str
    paper: str
    quantity: str
    of: str
    minus: str | None = None
    over: str | None = None
    above: float = -math.inf
    below: float = math.inf
    why: str = ""
    agrees: str = ""
    kind: ClaimKind = ClaimKind.effect
    headline: str = ""  # of which it is a part

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems that it speaks of."""
        return tuple(key for key in (self.of, self.minus, self.over) if key)


@dataclass(frozen=True)
class ClaimTable(Definition):
    """A paper's claims, and the systems that they speak of, by the experiment that makes them."""

    systems: Mapping[str, Mapping[str, Row]]  # experiment -> systems
    claims: Sequence[Claim]
    paper: PaperTable = NOT_PUBLISHED  # says how the paper made its draft or heads

    @property
    def rows(self) -> dict[str, Row]:
        """The systems of all experiments."""
        return {key: row for rows in self.systems.values() for key, row in rows.items()}

    def needs(self) -> Mapping[str, Need]:
        """See `Definition`."""
        return self.rows

    def shown(self) -> Iterator[tuple[str, str]]:
        """See `Definition`."""
        for claim in self.claims:
            yield from ((key, claim.quantity) for key in claim.systems)


@dataclass(frozen=True)
class Curve:
    """Points of runs in which one configuration key takes several values.

    `x` and `y` of the axes hold unless it has its own; `style` picks colour and marker. Runs of an
    `optional` one may be absent. One that is not `joined` has no line through its points: its
    values are in no order.
    """

    label: str
    where: Where
    key: str
    values: Sequence[Any]
    style: int = 0
    y: str | None = None
    optional: bool = False
    joined: bool = True

    @property
    def kind(self) -> str:
        """The kind of its series: a curve, or a scatter without a line."""
        return "curve" if self.joined else "scatter"

    def points(self) -> dict[str, Need]:
        """Return the run that every point needs."""
        return {
            f"{self.label} {self.key}={value}": Need(
                f"{self.label}, {self.key}={value}",
                {**self.where, self.key: value},
                optional=self.optional,
                curve=self.label,
            )
            for value in self.values
        }


@dataclass(frozen=True)
class Published:
    """Points that a paper prints."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class Axes:
    """One plot. `x` is a quantity; None: the key that the curves sweep."""

    title: str
    y: str
    curves: Sequence[Curve]
    x: str | None = None
    x_label: str = ""
    y_label: str = ""
    # systems without a swept key: horizontal lines, or points where x is a quantity too
    levels: Sequence[Need] = ()
    published: Sequence[Published] = ()
    ceiling: str | None = None  # line y = x + 1 with this label: the most that a round can emit
    chosen: float | None = None  # the paper's choice on the swept key


@dataclass(frozen=True)
class FigureDefinition(Definition):
    """A figure of one or more plots."""

    axes: Sequence[Axes]
    columns: int = 3  # plots a row

    def needs(self) -> dict[str, Need]:
        """Return the runs that the points need; those of levels may be absent."""
        found: dict[str, Need] = {}
        for axes in self.axes:
            for curve in axes.curves:
                found |= curve.points()
            for level in axes.levels:
                found[level.label] = level
        return found

    def shown(self) -> Iterator[tuple[str, str]]:
        """Yield points and levels with the quantities of their axes."""
        for axes in self.axes:
            at = {key: curve.y or axes.y for curve in axes.curves for key in curve.points()}
            at |= {level.label: axes.y for level in axes.levels}
            yield from at.items()
            yield from ((key, axes.x) for key in at if axes.x)


@dataclass(frozen=True)
class Report:
    """All tables and figures of one paper."""

    name: str
    title: str
    introduction: str
    tables: Sequence[TableDefinition] = ()
    figures: Sequence[FigureDefinition] = ()
    listening: str = ""  # the table whose systems the page lets one hear; empty: none
    plotted: str = ""  # the table whose systems its plot has; empty or unwritten: `listening`
    contrast: Sequence[str] = (
        "",
        "",
    )  # two of its rows: the page shows where the second loses most
    speakers: Sequence[SpeakerTable] = ()
    claims: Sequence[ClaimTable] = ()
    not_reproduced: Sequence[str] = ()

    @property
    def definitions(self) -> Sequence[Definition]:
        """All that takes runs."""
        return [*self.tables, *self.claims, *self.speakers, *self.figures]
