"""The one clock of costs: torch's own, which waits for the device and keeps the collector out."""

from collections.abc import Callable, Mapping
from statistics import median

import torch
from torch.utils.benchmark import Timer

WARM_UP = 3


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    """Median seconds of one call, with torch's threads as they are set; some calls go before."""
    return medians({"call": call}, repeats)["call"]


def medians(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The same of each, in turn so that drift of the machine meets all alike.

    Before each that counts torch makes the same call twice, so that caches hold what it reads.
    """
    threads = torch.get_num_threads()
    timers = {
        name: Timer("call()", globals={"call": call}, num_threads=threads)
        for name, call in calls.items()
    }
    for timer in timers.values():
        timer.timeit(WARM_UP)
    turns = [
        {name: timer.timeit(1).times[0] for name, timer in timers.items()} for _ in range(repeats)
    ]
    return {name: median(turn[name] for turn in turns) for name in timers}
