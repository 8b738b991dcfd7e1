"""What a metric is: one declaration that scores, comparisons, tables and figures read.

A metric is declared in the file of what measures it (`wer`, `similarity`, a judge's, `efficiency`)
and named in `registry`. Its figure is a statistic of sums of columns over utterances.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum

from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.statistics import Statistic, ratio

Columns = Callable[[ScoreRow], tuple[float | None, ...]]


class Better(Enum):
    """Which of two figures is the better one."""

    lower = "lower"
    higher = "higher"


@dataclass(frozen=True)
class Quantity:
    """A figure and how it is written: what tables, figures and captions say of it.

    `judge` measures it, as `EvalConfig.metrics` names it: who that was stands in
    headings (`judges`, by id; the id itself where it tells enough), and what must be said of some
    judges is in `remarks`.
    """

    heading: str
    digits: int = 2
    scale: float = 1.0
    _: KW_ONLY
    unit: str = ""  # of its difference between two systems
    better: Better | None = None
    caption: str = ""  # a sentence; two quantities may share one
    judge: str | None = None
    judges: Mapping[str, str] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    timed: bool = False  # made of seconds: a repeat on a shared machine differs

    def axis(self, judge: str = "") -> str:
        """Label of a plot's axis."""
        return f"{self.heading} ({judge})" if judge else self.heading


@dataclass(frozen=True)
class Metric(Quantity):
    """A quantity of score rows: the columns that are summed, and what is made of the sums.

    A row with a None among its columns takes no part.
    """

    _: KW_ONLY
    columns: Columns
    statistic: Statistic = ratio
    listed: bool = False  # in what sst-eval prints
    compared: bool = False  # by paired tests, where nobody says which


def over(numerator: str, denominator: str, scale: float = 1.0) -> Columns:
    """Two columns of a row whose sums are divided; `scale` is the numerator's unit."""

    def columns(row: ScoreRow) -> tuple[float | None, ...]:
        top = row[numerator]
        return (None if top is None else scale * top, row[denominator])

    return columns


def each(column: str) -> Columns:
    """A column whose mean over utterances counts."""
    return lambda row: (row[column], 1.0)


def opinion(column: str, heading: str, judge: str, shown: str) -> Metric:
    """The mean of a predicted opinion score; headings say `shown` of the judge."""
    return Metric(
        heading,
        better=Better.higher,
        judge=column,
        judges={judge: shown},
        columns=each(column),
        listed=True,
        compared=True,
    )


def total(row: ScoreRow, *columns: str) -> float | None:
    """Sum of some columns of a row; None where one of them was not measured."""
    values = [row[name] for name in columns]
    return None if None in values else float(sum(values))
