"""Format figures of a bench as Markdown, with intervals over its processes."""

from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.statistics import LEVEL
from speculative_tts.texts import with_interval

RATIO = METRICS["tokens_per_second"]  # a ratio of sums
ONE_PROCESS = "Timed in one process: no interval over processes, and no verdict rests on it."


def cell(values: Sequence[float], form: str) -> str:
    """Format the mean of a figure that each process measured, such as 1.20 [1.10, 1.30].

    The 95 % t-interval of that mean is over the processes; a single one has none.
    """
    from scipy import stats

    mean, number = fmean(values), len(values)
    if number < 2:
        return format(mean, form)
    reach = float(stats.t.ppf((1 + LEVEL) / 2, number - 1)) * stdev(values) / number**0.5
    return with_interval((mean, mean - reach, mean + reach), form)


def grid(head: Sequence[object], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a Markdown table."""
    first, *others = (f"| {' | '.join(map(str, row))} |" for row in (head, *rows))
    return [first, "|" + "---|" * len(head), *others]


def digits(speed: float) -> int:
    """Return the number of decimals to show of a speed in tokens per second."""
    return 0 if speed >= 100 else 1
