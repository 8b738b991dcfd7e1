"""The one clock of costs: torch's own, which waits for the device and keeps the collector out."""

from collections.abc import Callable
from statistics import median

import torch
from torch.utils.benchmark import Timer

WARM_UP = 3


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    """Median seconds of one call, with torch's threads as they are set; some calls go before."""
    timer = Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
    timer.timeit(WARM_UP)
    return median(timer.timeit(1).times[0] for _ in range(repeats))
