"""Loops whose steps read nothing of the device's, so that a GPU can replay them as CUDA graphs.

A loop keeps all that a step changes in tensors that stay where they are. With graphs it is kept for
later batches of its size, its step captured once: prefill and setting up stay outside.
"""

import sys
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, Generic, Protocol, Self, TypeVar

import torch

from speculative_tts.decoding.batch import BatchState, Request, Size
from speculative_tts.decoding.outcome import Outcome

Step = Callable[[], None]
Capture = Callable[[Step], Step]
SHARE, MOST_ROWS = 0.6, 128  # of free memory; more rows than that pay little
LAWS_A_ROW = 12  # float32 copies of a law that a step may hold at once, about
LOOKS = 4  # steps of a graph between two looks at which rows are done


class Loop(Protocol):
    """What decodes batches of one size."""

    rows: BatchState

    def load(self, requests: list[Request]) -> None:
        """Begin a batch: prefill and first tokens."""
        ...

    def step(self) -> None:
        """The next tokens of all rows."""
        ...

    def walk(self, number: int) -> bool:
        """So many steps, or all that are left if fewer, if that is one native call; else none."""
        ...

    def row(self, index: int) -> Self:
        """One row as a loop of its own in the same tensors, once the batch is loaded."""
        ...

    def outcomes(self) -> list[Outcome]:
        """What came of the rows, each of which is done."""
        ...


AnyLoop = TypeVar("AnyLoop", bound=Loop)


@dataclass(frozen=True)
class LoopSpec(Generic[AnyLoop]):
    """What decodes: `make` gives its loop for a size, `slack` are drafted tokens.

    `key` is equal where `make` makes the same, None where steps are not to be captured. A stream
    looks which rows are done after `several` native steps.
    """

    make: Callable[[Size], AnyLoop]
    slack: int
    key: Hashable | None
    several: int = 1


class Graphs:
    """Runs loops; with a `capture` it keeps them, by what they do and their size."""

    def __init__(self, capture: Capture | None = None) -> None:
        self._capture = capture
        self._kept: dict[Hashable, tuple[Any, Step]] = {}

    def decode(
        self, looping: LoopSpec[Any], requests: list[Request], loaded: Step = lambda: None
    ) -> list[Outcome]:
        """What a batch comes to, in one native call behind its first tokens where that can be.

        `loaded` is called once, when these are there.
        """
        if not requests:
            return []
        whole = self.states(looping, requests, repeat(sys.maxsize), loaded)
        (last,) = deque(whole, maxlen=1)
        outcomes: list[Outcome] = last.outcomes()
        return outcomes

    @torch.inference_mode()
    def states(
        self,
        looping: LoopSpec[AnyLoop],
        requests: list[Request],
        strides: Iterable[int] | None = None,
        loaded: Step = lambda: None,
    ) -> Iterator[AnyLoop]:
        """The loop after the first tokens and after each step, until all rows are done.

        Where steps are native, after each next number of `strides`, which do not end.
        """
        with self._taken(looping, Size.of(requests, looping.slack)) as (loop, step):
            loop.load(requests)
            loaded()
            ended = Ended(loop.rows)
            for number in repeat(1) if strides is None else strides:
                if number > 1:
                    loop.walk(number - 1)
                yield loop
                if ended():
                    return
                step()

    @torch.inference_mode()
    def stream(
        self, looping: LoopSpec[AnyLoop], requests: list[Request], batch: int
    ) -> Iterator[tuple[Request, Outcome]]:
        """Each utterance once it ends; the next one takes its row at once, the longest first."""
        waiting = sorted(requests, key=lambda one: one.max_tokens)
        size = replace(Size.of(requests, looping.slack), batch=min(batch, len(requests)))
        with self._taken(looping, size) as (loop, step):
            loop.load([waiting.pop() for _ in range(size.batch)])
            rows = [loop.row(index) for index in range(size.batch)]
            running = list(range(size.batch))
            while running:
                done = loop.rows.done.tolist()
                for index in [index for index in running if done[index]]:
                    yield from _ended(rows[index], waiting)
                    if rows[index].rows.finished:
                        running.remove(index)
                for _ in range(LOOKS if self._capture else 1):
                    if not loop.walk(looping.several):
                        step()

    def bucket(self, looping: LoopSpec[AnyLoop], requests: list[Request]) -> Size | None:
        """The size that a step is captured for; None where none is."""
        return Size.of(requests, looping.slack).bucket() if self._capture else None

    def fitting(self, looping: LoopSpec[AnyLoop], requests: list[Request], vocab_size: int) -> int:
        """Rows of these requests that the GPU's free memory holds, as a loop of one row tells."""
        size = replace(Size.of(requests, looping.slack), batch=1)
        before = torch.cuda.memory_allocated()
        loop = looping.make(size if self._capture is None else size.bucket())
        row = torch.cuda.memory_allocated() - before
        del loop
        laws = LAWS_A_ROW * 4 * vocab_size * (looping.slack + 1)
        return rows_that_fit(torch.cuda.mem_get_info()[0], row + laws)

    @contextmanager
    def _taken(self, looping: LoopSpec[AnyLoop], size: Size) -> Iterator[tuple[AnyLoop, Step]]:
        """A loop and what steps it: one that was kept, or a new one."""
        if self._capture is None or looping.key is None:
            loop = looping.make(size)
            yield loop, loop.step
            return
        size, loop, step = self._captured(looping, size)
        yield loop, step
        self._kept[looping.key, size] = loop, step

    def _captured(self, looping: LoopSpec[AnyLoop], size: Size) -> tuple[Size, AnyLoop, Step]:
        """Of the very size where a bucket is more than is had."""
        assert self._capture is not None
        for fitting in (size.bucket(), size):
            if (looping.key, fitting) in self._kept:
                return fitting, *self._kept.pop((looping.key, fitting))
        try:
            size, loop = size.bucket(), looping.make(size.bucket())
        except ValueError:
            loop = looping.make(size)
        return size, loop, self._capture(loop.step)


def rows_that_fit(free: int, row: int) -> int:
    """Rows of so many bytes in free memory, with room to spare."""
    return max(1, min(MOST_ROWS, int(SHARE * free / row)))


EAGER = Graphs()


def _ended(row: Loop, waiting: list[Request]) -> Iterator[tuple[Request, Outcome]]:
    """What a row that is done came to; the last of `waiting` takes its place."""
    while row.rows.finished:
        yield row.rows.requests[0], row.outcomes()[0]
        if not waiting:
            return
        row.load([waiting.pop()])


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
