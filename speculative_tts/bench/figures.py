"""Format figures of a bench as Markdown, with intervals over its processes."""

from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

import numpy as np
from scipy import stats

from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.statistics import LEVEL
from speculative_tts.texts import with_interval

RATIO = METRICS["tokens_per_second"]  # a ratio of sums
ONE_PROCESS = "Timed in one process: no interval over processes, and no verdict rests on it."


def cell(values: Sequence[float], form: str, *, signed: bool = False) -> str:
    """Format the mean of a figure that each process measured, such as 1.20 [1.10, 1.30].

    The 95 % t-interval is over the processes, of logarithms unless the figure is `signed`; a single
    process has none.
    """
    mean, number = fmean(values), len(values)
    if number < 2:
        return format(mean, form)
    there, back = (np.positive, np.positive) if signed else (np.log, np.exp)
    reach = float(stats.t.ppf((1 + LEVEL) / 2, number - 1)) * stdev(there(values)) / number**0.5
    ends = (float(back(there(mean) + end)) for end in (-reach, reach))
    return with_interval((mean, *ends), form)


def grid(head: Sequence[object], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a Markdown table."""
    first, *others = (f"| {' | '.join(map(str, row))} |" for row in (head, *rows))
    return [first, "|" + "---|" * len(head), *others]


def digits(speed: float) -> int:
    """Return the number of decimals to show of a speed in tokens per second."""
    return 0 if speed >= 100 else 1
