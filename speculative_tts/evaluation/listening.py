"""Runs judges over audio files, in worker processes.

Every file is heard once; what was measured before is taken from the cache.
"""

import functools
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from speculative_tts.evaluation.audio import flags_of, load_wave
from speculative_tts.evaluation.cache import MeasurementCache
from speculative_tts.evaluation.judge import Heard, Judge, Measure
from speculative_tts.files import file_hash

Wanted = tuple[Judge, str]  # a judge and the audio file that it should hear
Task = tuple[str, tuple[Judge, ...]]
Advance = Callable[[], None]


@dataclass
class Measurements:
    """Measurements by judge and file, and why files could not be heard."""

    by_judge: dict[Judge, dict[str, Heard]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def values(self, judge: Judge) -> dict[str, Any]:
        """Measured value of each file."""
        return {path: heard.value for path, heard in self.by_judge.get(judge, {}).items()}

    def flags(self, path: str) -> list[str]:
        """Flags of a file, by any judge."""
        found = [heard[path].flags for heard in self.by_judge.values() if path in heard]
        return found[0] if found else []


class Listener:
    """Hears files with judges.

    Use as a context manager: workers start when first needed and end with it.
    """

    def __init__(self, cache: MeasurementCache, workers: int = 1) -> None:
        if workers < 1:
            raise ValueError(f"workers={workers} is below 1; use 1 to score in this process")
        self._cache = cache
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._digests: dict[str, str] = {}

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def pending(self, wanted: Iterable[Wanted]) -> list[Task]:
        """Files not heard yet with the judges that wait for them; files of equal content once."""
        tasks: dict[str, tuple[str, dict[Judge, None]]] = {}
        for judge, path in wanted:
            sha256 = self._digest(path)
            if sha256 is not None and sha256 not in self._cache.get(judge):
                tasks.setdefault(sha256, (path, {}))[1][judge] = None
        return [(path, tuple(judges)) for path, judges in tasks.values()]

    def hear(self, wanted: Sequence[Wanted], advance: Advance = lambda: None) -> Measurements:
        """Measurements of all wanted pairs; calls `advance` after each file that was heard."""
        result = Measurements()
        for (path, judges), heard in self._run(self.pending(wanted)):
            if isinstance(heard, str):
                result.errors |= {
                    other: heard for _, other in wanted if self._digest(other) == self._digest(path)
                }
            else:
                for judge, one in zip(judges, heard, strict=True):
                    self._cache.put(judge, self._digests[path], one)
            advance()
        for judge, path in wanted:
            sha256 = self._digest(path)
            if sha256 is None:
                result.errors[path] = f"audio file {path} not found"
            elif path not in result.errors:
                result.by_judge.setdefault(judge, {})[path] = self._cache.get(judge)[sha256]
        return result

    def _digest(self, path: str) -> str | None:
        if path not in self._digests:
            if not Path(path).is_file():
                return None
            self._digests[path] = file_hash(Path(path))
        return self._digests[path]

    def _run(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, list[Heard] | str]]:
        if self._workers == 1 or len(tasks) < 2:
            yield from ((task, hear_file(task)) for task in tasks)
            return
        if self._pool is None:
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._workers, spawn, start_worker, (os.getpid(),))
        futures = {self._pool.submit(hear_file, task): task for task in tasks}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            for future in futures:
                future.cancel()


def hear_file(task: Task) -> list[Heard] | str:
    """What each judge measures of a file, or one line: why it cannot be read."""
    path, judges = task
    try:
        wave = load_wave(Path(path))
    except (OSError, ValueError) as error:
        return str(error)
    flags = flags_of(wave)
    if "empty_audio" in flags:
        return [Heard(None, flags) for _ in judges]
    return [Heard(_loaded(judge)(wave), flags) for judge in judges]


@functools.cache
def _loaded(judge: Judge) -> Measure:
    return judge.load()


def start_worker(parent: int) -> None:
    """One thread; Ctrl-C is left to the parent; the worker ends when its parent was killed."""
    os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
