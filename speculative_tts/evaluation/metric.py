"""Define metrics: one declaration that scores, comparisons, tables and figures read.

A metric is declared in the file that measures it (`wer`, `similarity`, a judge's, `efficiency`)
and listed in `registry`. Its figure is a statistic of sums of columns over utterances.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum

from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.statistics import Statistic, ratio

Columns = Callable[[ScoreRow], tuple[float | None, ...]]


class Better(Enum):
    """Direction in which a figure improves."""

    lower = "lower"
    higher = "higher"


@dataclass(frozen=True)
class Quantity:
    """A figure and its presentation in tables, plots and captions.

    `judge` is the judge's name in `EvalConfig.metrics`. Headings name the judge that was used by
    `judges` (id -> label, the id itself if absent); `remarks` has the notes that some judges need.
    """

    heading: str
    digits: int = 2
    scale: float = 1.0
    _: KW_ONLY
    unit: str = ""  # unit of a difference between two systems
    better: Better | None = None
    caption: str = ""  # a sentence; two quantities may share one
    judge: str | None = None
    judges: Mapping[str, str] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    timed: bool = False  # depends on seconds: a repeat on a shared machine differs

    def axis(self, judge: str = "") -> str:
        """Return the label of a plot's axis."""
        return f"{self.heading} ({judge})" if judge else self.heading


@dataclass(frozen=True)
class Metric(Quantity):
    """A quantity of score rows: the columns to sum, and the statistic of their sums.

    A row with a None among its columns takes no part.
    """

    _: KW_ONLY
    columns: Columns
    statistic: Statistic = ratio
    listed: bool = False  # printed by sst-eval
    compared: bool = False  # compared by paired tests by default


def over(numerator: str, denominator: str, scale: float = 1.0) -> Columns:
    """Return two columns whose sums are divided; `scale` converts the numerator's unit."""

    def columns(row: ScoreRow) -> tuple[float | None, ...]:
        top = row[numerator]
        return (None if top is None else scale * top, row[denominator])

    return columns


def each(column: str) -> Columns:
    """Return a column and a 1, for its mean over utterances."""
    return lambda row: (row[column], 1.0)


def opinion(column: str, heading: str, judge: str, shown: str) -> Metric:
    """Declare the mean of a predicted opinion score; headings name the judge as `shown`."""
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
    """Sum some columns of a row; None where one of them was not measured."""
    values = [row[name] for name in columns]
    return None if None in values else float(sum(values))
