"""Loops whose steps read nothing of the device's, so that a GPU can replay them as CUDA graphs.

A loop keeps all that a step changes in tensors that stay where they are. With graphs it is kept for
later batches of its size, its step captured once: prefill and setting up stay outside.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Protocol, TypeVar

import torch

from speculative_tts.decoding.batch import BatchState, Request, Size

Step = Callable[[], None]
Capture = Callable[[Step], Step]


class Loop(Protocol):
    """What decodes batches of one size."""

    rows: BatchState

    def load(self, requests: list[Request]) -> None:
        """Begin a batch: prefill and first tokens."""
        ...

    def step(self) -> None:
        """The next tokens of all rows."""
        ...


AnyLoop = TypeVar("AnyLoop", bound=Loop)


class Graphs:
    """Runs loops; with a `capture` it keeps them, by what they do and their size."""

    def __init__(self, capture: Capture | None = None) -> None:
        self._capture = capture
        self._kept: dict[Hashable, tuple[Any, Step]] = {}

    @torch.inference_mode()
    def states(
        self,
        make: Callable[[Size], AnyLoop],
        requests: list[Request],
        *,
        slack: int,
        key: Hashable,
    ) -> Iterator[AnyLoop]:
        """The loop after the first tokens and after each step, until all rows are done.

        slack: drafted tokens; key: what `make` makes.
        """
        size = Size.of(requests, slack)
        if self._capture is None:
            loop = make(size)
            step = loop.step
        else:
            size, loop, step = self._taken(make, size, key)
        loop.load(requests)
        yield loop
        ended = Ended(loop.rows)
        while not ended():
            step()
            yield loop
        # Where there was no law caches hold NaN, which no mask hides from the next batch.
        if self._capture is not None and loop.rows.lawful:
            self._kept[key, size] = loop, step

    def _taken(
        self, make: Callable[[Size], AnyLoop], size: Size, key: Hashable
    ) -> tuple[Size, AnyLoop, Step]:
        """One that was kept, or a new one; of the very size where a bucket is more than is had."""
        assert self._capture is not None
        for fitting in (size.bucket(), size):
            if (key, fitting) in self._kept:
                return fitting, *self._kept.pop((key, fitting))
        try:
            size, loop = size.bucket(), make(size.bucket())
        except ValueError:
            loop = make(size)
        return size, loop, self._capture(loop.step)


EAGER = Graphs()


class Ended:
    """Are all rows done? On a GPU a step late: the answer is copied while the next step runs."""

    def __init__(self, rows: BatchState) -> None:
        self._rows, on_gpu = rows, rows.done.is_cuda
        self._answer = torch.zeros((), dtype=torch.bool, pin_memory=on_gpu)
        self._copied = torch.cuda.Event() if on_gpu else None  # type: ignore[no-untyped-call]
        self._ask()

    def __call__(self) -> bool:
        """Ask again, and say what the answer was before."""
        if self._copied is None:
            return self._rows.finished
        self._copied.synchronize()
        ended = bool(self._answer)
        self._ask()
        return ended

    def _ask(self) -> None:
        if self._copied is not None:
            self._answer.copy_(self._rows.done.all(), non_blocking=True)
            self._copied.record()


def cuda_graph(step: Step) -> Step:
    """The step as it is the first time, when libraries set themselves up; then its replay."""
    graph = torch.cuda.CUDAGraph()

    def turns() -> Iterator[None]:
        here, aside = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(here)  # as capturing wants it
        with torch.cuda.stream(aside):
            step()
        here.wait_stream(aside)
        yield
        with torch.cuda.graph(graph):
            step()
        while True:
            graph.replay()
            yield

    return turns().__next__
