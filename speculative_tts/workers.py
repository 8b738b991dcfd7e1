"""Workers that do pieces of work: this process, or others of this machine.

Results are written whole or kept in records, so a piece whose worker was lost (killed, out of
memory, its node gone) is simply done again; with copies of this process, by the same command.
"""

import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import connection, get_context
from multiprocessing.context import ForkProcess
from typing import Any, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")
LOST_COPY = (
    "a copy of the process was lost (killed, or out of memory); the same command goes on, and "
    "workers=1 needs less memory"
)
AHEAD = 4  # pieces that wait for each worker: all of them may be more than memory holds


class Workers:
    """A single worker, this process; subclasses have others."""

    def each(
        self, work: Callable[[Piece], Result], pieces: Iterable[Piece]
    ) -> Iterator[tuple[Piece, Result]]:
        """Yield every piece with its result, as they come; raise what a piece raises."""
        for piece in pieces:
            yield piece, work(piece)


HERE = Workers()


class Processes(Workers):
    """Processes of this machine with one thread each, which end with this one."""

    def __init__(self, number: int, retries: int) -> None:
        self._number, self._retries = number, retries

    def each(
        self, work: Callable[[Piece], Result], pieces: Iterable[Piece]
    ) -> Iterator[tuple[Piece, Result]]:
        """See `Workers`."""
        left = iter(pieces)
        todo = deque(islice(left, 2))
        if len(todo) < 2:  # not worth a start
            yield from super().each(work, todo)
            return
        for lost in range(1, self._retries + 2):
            waiting = dict[Future[Result], Piece]()
            try:
                yield from self._pooled(work, todo, left, waiting)
                return
            except BrokenProcessPool as error:
                if lost > self._retries:
                    raise lost_worker(lost) from error
                todo.extendleft(waiting.values())

    def _pooled(
        self,
        work: Callable[[Piece], Result],
        todo: deque[Piece],
        left: Iterator[Piece],
        waiting: dict[Future[Result], Piece],
    ) -> Iterator[tuple[Piece, Result]]:
        """Yield results of a pool of processes while all of them live."""
        # A fork of a process with torch's threads can hang where it uses them; `_copy` does not.
        spawn = get_context("spawn")
        pool = ProcessPoolExecutor(self._number, spawn, _start_process, (os.getpid(),))
        try:
            while True:
                todo.extend(islice(left, max(0, AHEAD * self._number - len(waiting) - len(todo))))
                while todo:
                    future = pool.submit(work, todo[0])
                    waiting[future] = todo.popleft()
                if not waiting:
                    return
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    result = future.result()
                    yield waiting.pop(future), result
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def afresh(work: Callable[[Piece], Result], pieces: Iterable[Piece]) -> Iterator[Result]:
    """Yield what work makes of each piece in a new process of its own, one after the other."""
    for piece in pieces:
        spawn = get_context("spawn")
        with ProcessPoolExecutor(1, spawn, _start_process, (os.getpid(),)) as pool:
            try:
                yield pool.submit(work, piece).result()
            except BrokenProcessPool as error:
                raise ValueError(LOST_COPY) from error


def copies(work: Callable[[Piece], Iterator[Result]], pieces: Sequence[Piece]) -> Iterator[Result]:
    """Yield the results of pieces worked on by forks of this process, which share what is loaded.

    Results come in any order; an error of a copy is raised here, and a lost copy is a ValueError. A
    single piece is done here. A process that has used a GPU must not call this.
    """
    if len(pieces) < 2:
        for piece in pieces:
            yield from work(piece)
        return
    fork, running = get_context("fork"), dict[Any, ForkProcess]()
    try:
        for piece in pieces:
            arriving, end = fork.Pipe(duplex=False)
            life = (work, piece, end, os.getpid())
            process = fork.Process(target=_copy, args=life, daemon=True)
            process.start()
            running[arriving] = process
            end.close()
        yield from _arriving(running)
    finally:
        for process in running.values():
            process.kill()
        for process in running.values():
            process.join()


def _arriving(running: dict[Any, ForkProcess]) -> Iterator[Any]:
    """Yield results of copies until all have ended."""
    while running:
        pipes: list[Any] = connection.wait(list(running))
        for pipe in pipes:
            try:
                result, error = pipe.recv()
            except (EOFError, OSError):  # OSError where it was lost while it sent a result
                process = running.pop(pipe)
                process.join()
                if process.exitcode != 0:
                    raise ValueError(LOST_COPY) from None
                continue
            if error is not None:
                raise error
            yield result


def lost_worker(times: int) -> ValueError:
    """Return the error for pieces that were lost again and again."""
    return ValueError(
        f"workers were lost {times} times (killed, or out of memory); the same command goes on: "
        "give fewer workers, or cluster.retries=<more>"
    )


def _copy(work: Callable[[Piece], Iterator[Result]], piece: Piece, end: Any, parent: int) -> None:
    """Run a copy: send each result, or the error."""
    import torch

    _start_process(parent)
    torch.set_num_threads(1)  # the others are not here
    try:
        for result in work(piece):
            end.send((result, None))
    except Exception as error:  # noqa: BLE001 it is raised in the other process
        error.add_note(traceback.format_exc())
        end.send((None, error))


def _start_process(parent: int) -> None:
    """Set up a process: one thread, Ctrl-C left to the parent, an end when the parent is killed."""
    os.environ["OMP_NUM_THREADS"] = "1"  # read as torch is imported
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
