"""Time calls with torch's Timer, which stops garbage collection."""

import time
from collections.abc import Callable, Mapping
from statistics import median

import torch
from torch.utils.benchmark import Timer
from torch.utils.benchmark.utils.timer import timer as waiting

WARM_UP = 3
Clock = Callable[[], float]


def clock_of(device: torch.device) -> Clock:
    """Return the clock of a device's work.

    On one core it counts the core's seconds, which other programs do not lengthen, else it is
    torch's, which waits for the device.
    """
    one_core = device.type == "cpu" and torch.get_num_threads() == 1
    return time.thread_time if one_core else waiting


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    """Return the median seconds of one call after a warm-up, with torch's threads as set."""
    return medians({"call": call}, repeats)["call"]


def medians(
    calls: Mapping[str, Callable[[], object]], repeats: int, clock: Clock = waiting
) -> dict[str, float]:
    """Return the median seconds of each call, in turn so that drift affects all alike.

    torch makes each call twice before one that counts, so that caches hold the data.
    """
    threads = torch.get_num_threads()
    timers = {
        name: Timer("call()", timer=clock, globals={"call": call}, num_threads=threads)
        for name, call in calls.items()
    }
    for timer in timers.values():
        timer.timeit(WARM_UP)
    turns = [
        {name: timer.timeit(1).times[0] for name, timer in timers.items()} for _ in range(repeats)
    ]
    return {name: median(turn[name] for turn in turns) for name in timers}
