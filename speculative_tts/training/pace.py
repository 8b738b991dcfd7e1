"""Time the first steps of a training: how long all of it will take, or how many steps fit."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

MEASURED = 3  # steps, after a first one that warms up


class Pace:
    """Seconds of a process's first steps and of its newest evaluation; the first step is left out.

    `unit` is what is counted a step, such as tokens.
    """

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.steps = 0  # timed, the first one among them
        self.seconds = self.learned = 0.0
        self.evaluation = 0.0  # seconds

    @contextmanager
    def step(self) -> Iterator[None]:
        """Time a step; `add` says how much it learned."""
        begin = time.perf_counter()
        yield
        self.steps += 1
        if self.steps > 1:
            self.seconds += time.perf_counter() - begin
        else:
            self.learned = 0.0

    def add(self, learned: float) -> None:
        """Count what a step learned, of all processes together."""
        self.learned += learned

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Time an evaluation."""
        begin = time.perf_counter()
        yield
        self.evaluation = time.perf_counter() - begin

    @property
    def each(self) -> float:
        """Return the seconds of a step."""
        return self.seconds / MEASURED

    @property
    def known(self) -> bool:
        """True at the step after which an estimate is due."""
        return self.steps == 1 + MEASURED

    def estimate(self, left: int, evaluations: int) -> str:
        """Return the line about so many further steps and evaluations."""
        seconds = left * self.each + evaluations * self.evaluation
        rate = self.learned / max(self.seconds, 1e-9)
        return (
            f"about {duration(seconds)} for {left} more steps at {rate:,.0f} {self.unit}/s "
            f"({MEASURED} steps were timed)"
        )

    def needed(self, steps: int, every: int) -> float:
        """Return the seconds of so many steps, with an evaluation each `every` and two more."""
        return steps * (self.each + self.evaluation / every) + 2 * self.evaluation

    def fitting(self, seconds: float, every: int) -> int:
        """Return the most steps that need no more than `seconds`."""
        fixed = self.needed(0, every)
        return max(0, int((seconds - fixed) / max(self.needed(1, every) - fixed, 1e-9)))


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    if seconds < 100:
        return f"{math.ceil(seconds)} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"
