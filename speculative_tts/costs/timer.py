"""Time calls with torch's timer, which waits for the device and stops garbage collection."""

from collections.abc import Callable, Mapping
from statistics import median

import torch
from torch.utils.benchmark import Timer

WARM_UP = 3


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    """Return the median seconds of one call after a warm-up, with torch's threads as set."""
    return medians({"call": call}, repeats)["call"]


def medians(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median seconds of each call, in turn so that drift affects all alike.

    torch makes each call twice before one that counts, so that caches hold the data.
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
