"""Runs judges over audio files, on workers.

Every audio is heard once, whatever files hold it; what was measured before is in the cache.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from speculative_tts.evaluation.audio import flags_of, load_wave
from speculative_tts.evaluation.cache import MeasurementCache
from speculative_tts.evaluation.judge import Heard, Judge, Measures, load_many
from speculative_tts.files import file_hash
from speculative_tts.workers import HERE, Workers

Wanted = tuple[Judge, str]  # a judge and the audio file that it should hear
Task = tuple[str, tuple[Judge, ...]]
Piece = tuple[tuple[str, ...], tuple[Judge, ...]]  # files that a worker takes at once
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
    """Hears files with judges; what is heard is in the cache at once."""

    def __init__(self, cache: MeasurementCache, workers: Workers = HERE, batch: int = 1) -> None:
        self._cache, self._workers, self._batch = cache, workers, batch
        self._digests: dict[str, str] = {}
        self._errors: dict[str, str] = {}  # by digest

    def pending(self, wanted: Iterable[Wanted]) -> dict[str, Task]:
        """By digest files not heard yet, with the judges that wait for them."""
        tasks: dict[str, tuple[str, dict[Judge, None]]] = {}
        for judge, path in wanted:
            sha256 = self._digest(path)
            if sha256 is not None and sha256 not in self._cache.get(judge):
                tasks.setdefault(sha256, (path, {}))[1][judge] = None
        return {sha256: (path, tuple(judges)) for sha256, (path, judges) in tasks.items()}

    def listen(self, tasks: Iterable[Task]) -> Iterator[str]:
        """Hear files; the digest of each once it was heard, or could not be."""
        for (paths, judges), found in self._workers.each(hear, _pieces(tasks, self._batch)):
            for path, heard in zip(paths, found, strict=True):
                sha256 = self._digests[path]
                if isinstance(heard, str):
                    self._errors[sha256] = heard
                else:
                    for judge, one in zip(judges, heard, strict=True):
                        self._cache.put(judge, sha256, one)
                yield sha256

    def measurements(self, wanted: Iterable[Wanted]) -> Measurements:
        """What is known of pairs that were all heard."""
        result = Measurements()
        for judge, path in wanted:
            sha256 = self._digest(path)
            if sha256 is None:
                result.errors[path] = f"audio file {path} not found"
            elif sha256 in self._errors:
                result.errors[path] = self._errors[sha256]
            else:
                result.by_judge.setdefault(judge, {})[path] = self._cache.get(judge)[sha256]
        return result

    def _digest(self, path: str) -> str | None:
        if path not in self._digests:
            if not Path(path).is_file():
                return None
            self._digests[path] = file_hash(Path(path))
        return self._digests[path]


def hear(piece: Piece) -> list[list[Heard] | str]:
    """Of each file what each judge measures, or one line: why it cannot be read."""
    paths, judges = piece
    waves, found = {}, dict[str, list[Heard] | str]()
    for path in paths:
        try:
            wave = load_wave(Path(path))
        except (OSError, ValueError) as error:
            found[path] = str(error)
            continue
        flags = flags_of(wave)
        if "empty_audio" in flags:
            found[path] = [Heard(None, flags) for _ in judges]
        else:
            waves[path] = wave, flags
    sound = [wave for wave, _ in waves.values()]
    heard = [_loaded(judge)(sound) for judge in judges] if sound else []
    for index, (path, (_, flags)) in enumerate(waves.items()):
        found[path] = [Heard(values[index], flags) for values in heard]
    return [found[path] for path in paths]


@functools.cache
def _loaded(judge: Judge) -> Measures:
    return load_many(judge)


def _pieces(tasks: Iterable[Task], batch: int) -> Iterator[Piece]:
    """Neighbours that the same judges hear, up to `batch` of them at once."""
    for judges, some in groupby(tasks, key=lambda task: task[1]):
        paths: Sequence[str] = [path for path, _ in some]
        for begin in range(0, len(paths), batch):
            yield tuple(paths[begin : begin + batch]), judges
