"""Decoding loops that never synchronise with the device, so that CUDA graphs can replay them.

A loop keeps all that a step changes in tensors that stay where they are. With graphs it is kept for
later batches of its size, its step captured once: prefill and setting up stay outside.
"""

import sys
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice, repeat
from typing import Any, Generic, Protocol, Self, TypeVar

import torch

from speculative_tts.decoding.batch import BatchState, Request, Size
from speculative_tts.decoding.gpu import rounds
from speculative_tts.decoding.gpu.launch import runs
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.models.gpu.capture import recorded, replays

Step = Callable[[], None]
Capture = Callable[[Step], Step]
SHARE, MOST_ROWS = 0.6, 128  # of free memory; more rows than that pay little
LAWS_A_ROW = 12  # float32 copies of a distribution that a step may hold at once, about
LEAST_FREE = 0.25  # of the GPU's memory: with less of it free, loops that were kept are let go
LOOKS = 4  # steps of a graph between two looks at which rows are done


class Loop(Protocol):
    """A decoding loop for batches of one size."""

    rows: BatchState

    def load(self, requests: list[Request]) -> None:
        """Begin a batch: prefill and first tokens."""

    def step(self) -> None:
        """Decode the next tokens of all rows."""

    def run_native(self, number: int) -> bool:
        """Run up to `number` steps in one native call and return True; else run none."""

    def row(self, index: int) -> Self:
        """Return one row as a loop of its own in the same tensors, once the batch is loaded."""

    def outcomes(self) -> list[Outcome]:
        """Return one outcome per row; call when all rows are done."""


AnyLoop = TypeVar("AnyLoop", bound=Loop)


@dataclass(frozen=True)
class LoopSpec(Generic[AnyLoop]):
    """A recipe of a loop: `make` builds it for a size, `slack` are drafted tokens.

    `key` is equal where `make` makes the same, None where steps are not to be captured. A stream
    looks which rows are done after `several` native steps.
    """

    make: Callable[[Size], AnyLoop]
    slack: int
    key: Hashable | None
    several: int = 1


def free_share() -> float:
    """Return how much of the GPU's memory is free; 1 without a GPU."""
    if not torch.cuda.is_available():
        return 1.0
    free, total = torch.cuda.mem_get_info()
    return free / total


class Graphs:
    """Runs loops; with a `capture` it keeps them, by what they do and their size.

    Kept loops hold caches and the memory of their graphs. Before a new one is made those used
    longest ago are let go until `free_share` is LEAST_FREE.
    """

    def __init__(
        self, capture: Capture | None = None, free_share: Callable[[], float] = free_share
    ) -> None:
        self.capture, self.free_share = capture, free_share
        self.kept: dict[Hashable, tuple[Any, Step, Ended]] = {}

    def decode(
        self, looping: LoopSpec[Any], requests: list[Request], loaded: Step = lambda: None
    ) -> list[Outcome]:
        """Decode a batch; where native, in one call after its first tokens.

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
    ) -> Generator[AnyLoop, None, None]:
        """Yield the loop after the first tokens and after each step, until all rows are done.

        Where steps are native, after each next number of `strides`, which do not end.
        """
        with self._taken(looping, Size.of(requests, looping.slack)) as (loop, step, ended):
            with self._replays():
                loop.load(requests)
            loaded()
            ended.begin()
            for number in repeat(1) if strides is None else strides:
                if number > 1:
                    loop.run_native(number - 1)
                yield loop
                if ended():
                    return
                step()
                ended.mark()

    @torch.inference_mode()
    def stream(
        self, looping: LoopSpec[AnyLoop], requests: list[Request], batch: int
    ) -> Iterator[tuple[Request, Outcome]]:
        """Yield each utterance once it ends; the next takes its row at once, the longest first."""
        size = replace(Size.of(requests, looping.slack), batch=min(batch, len(requests)))
        queue = iter(sorted(requests, key=lambda one: one.max_tokens, reverse=True))
        for seen in self.serve(looping, size, queue):
            for row in (row for row, done in seen.values() if done):
                yield row.rows.requests[0], row.outcomes()[0]

    @torch.inference_mode()
    def serve(
        self, looping: LoopSpec[AnyLoop], size: Size, queue: Iterator[Request]
    ) -> Iterator[dict[int, tuple[AnyLoop, bool]]]:
        """Decode `size.batch` requests at a time; each that ends makes room for the queue's next.

        Yields after prefills and after steps the rows that are running, by their number, and
        whether each is done. The next request of a row is asked for once that has been seen.
        """
        with self._taken(looping, size) as (loop, step, _):
            with self._replays():
                loop.load([*islice(queue, size.batch)])
            running = {index: loop.row(index) for index in range(size.batch)}
            while running:
                done = loop.rows.done.tolist()
                yield {index: (row, done[index]) for index, row in running.items()}
                ended = [index for index in running if done[index]]
                for index in ended:
                    if (request := next(queue, None)) is None:
                        del running[index]
                        continue
                    with self._replays():
                        running[index].load([request])
                if ended:
                    continue  # first tokens are seen before more are made
                for _ in range(LOOKS if self.capture else 1):
                    if not loop.run_native(looping.several):
                        step()

    def bucket(self, looping: LoopSpec[AnyLoop], requests: list[Request]) -> Size | None:
        """Return the size that a step is captured for; None without capture."""
        return Size.of(requests, looping.slack).bucket() if self.capture else None

    def fitting(self, looping: LoopSpec[AnyLoop], requests: list[Request], vocab_size: int) -> int:
        """Return how many rows of these requests fit the GPU's free memory, by a loop of one row.

        Loops that were kept are let go: their graphs' memory is no other's. What a captured step
        works in is twice there, once for the turn that is not replayed.
        """
        self._let_go(until=lambda: False)
        size = replace(Size.of(requests, looping.slack), batch=1)
        before = torch.cuda.memory_allocated()
        loop = looping.make(size if self.capture is None else size.bucket())
        row = torch.cuda.memory_allocated() - before
        del loop
        laws = LAWS_A_ROW * 4 * vocab_size * (looping.slack + 1)
        turns = 1 if self.capture is None else 2
        return rows_that_fit(torch.cuda.mem_get_info()[0], row + turns * laws)

    def _replays(self) -> AbstractContextManager[None]:
        """Return a context in which prefills are replayed, if steps are."""
        return replays() if self.capture is cuda_graph else nullcontext()

    def _let_go(self, until: Callable[[], bool]) -> None:
        """Drop kept loops, those used longest ago first."""
        while self.kept and not until():
            self.kept.pop(next(iter(self.kept)))
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    @contextmanager
    def _taken(
        self, looping: LoopSpec[AnyLoop], size: Size
    ) -> Iterator[tuple[AnyLoop, Step, "Ended"]]:
        """Take out a kept loop and its step, or make new ones; keep them afterwards."""
        if self.capture is None or looping.key is None:
            loop = looping.make(size)
            ended = Ended(loop.rows)
            yield loop, ended.after(loop.step), ended
            return
        size, taken = self._captured(looping, size)
        try:  # who looks on may stop before the batch is over: the next one begins with `load`
            yield taken
        finally:
            self.kept[looping.key, size] = taken

    def _captured(
        self, looping: LoopSpec[AnyLoop], size: Size
    ) -> tuple[Size, tuple[AnyLoop, Step, "Ended"]]:
        """Use the exact size if the model is too short for the bucket."""
        assert self.capture is not None
        for fitting in (size.bucket(), size):
            if (looping.key, fitting) in self.kept:
                return fitting, self.kept.pop((looping.key, fitting))
        self._let_go(until=lambda: self.free_share() >= LEAST_FREE)
        try:
            size, loop = size.bucket(), looping.make(size.bucket())
        except ValueError:
            loop = looping.make(size)
        ended = Ended(loop.rows)
        return size, (loop, self.capture(ended.after(loop.step)), ended)


def rows_that_fit(free: int, row: int) -> int:
    """Return how many rows of so many bytes fit free memory, with room to spare."""
    return max(1, min(MOST_ROWS, int(SHARE * free / row)))


EAGER = Graphs()


class Ended:
    """Says whether all rows are done; on a GPU one step late, so that none waits for the host.

    There each step leaves the answer in the host's memory, which is read once the step before the
    newest has ended.
    """

    def __init__(self, rows: BatchState) -> None:
        self._rows, self._on_gpu = rows, rows.done.is_cuda
        self._answer = torch.zeros((), dtype=torch.bool, pin_memory=self._on_gpu)
        self._marks: deque[torch.cuda.Event] = deque()

    def after(self, step: Step) -> Step:
        """Return a step that leaves the answer; it may be captured."""

        def told() -> None:
            step()
            self._leave()

        return told if self._on_gpu else step

    def begin(self) -> None:
        """Begin a batch, whose first tokens are there."""
        self._marks.clear()
        if self._on_gpu:
            self._leave()
            self.mark()

    def mark(self) -> None:
        """Mark the end of what was launched so far."""
        if self._on_gpu:
            mark = torch.cuda.Event()  # type: ignore[no-untyped-call]
            mark.record()
            self._marks.append(mark)

    def __call__(self) -> bool:
        """Return whether all rows were done at the last mark but one, or at the only one."""
        if not self._on_gpu:
            return self._rows.finished
        self._marks[0].synchronize()
        if len(self._marks) > 1:
            self._marks.popleft()
        return bool(self._answer)

    def _leave(self) -> None:
        if runs(self._rows.done):
            rounds.leave(self._rows, self._answer)
        else:
            self._answer.copy_(self._rows.done.all(), non_blocking=True)


def cuda_graph(step: Step) -> Step:
    """Capture a step at its second run, after libraries set themselves up; then replay it."""

    def turns() -> Iterator[None]:
        here, aside = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(here)  # as capturing wants it
        with torch.cuda.stream(aside):
            step()
        here.wait_stream(aside)
        yield
        graph, _ = recorded(step)
        while True:
            graph.replay()
            yield

    return turns().__next__
