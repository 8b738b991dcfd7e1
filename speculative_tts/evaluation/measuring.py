"""Run judges over audio files, on workers.

Equal audio is measured once, whatever files hold it; earlier measurements come from the cache.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from speculative_tts.evaluation.audio import flags_of, load_wave
from speculative_tts.evaluation.cache import MeasurementCache
from speculative_tts.evaluation.judge import Judge, Measurement, Measures, load_many
from speculative_tts.files import file_hash
from speculative_tts.typed import not_finite
from speculative_tts.workers import HERE, Workers

Wanted = tuple[Judge, str]  # a judge and an audio file that it should measure
Task = tuple[str, tuple[Judge, ...]]
Piece = tuple[tuple[str, ...], tuple[Judge, ...]]  # files that a worker takes at once


@dataclass
class Measurements:
    """Measurements by judge and file, and the errors of files that could not be read."""

    by_judge: dict[Judge, dict[str, Measurement]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def values(self, judge: Judge) -> dict[str, Any]:
        """Return the measured value of each file."""
        return {path: one.value for path, one in self.by_judge.get(judge, {}).items()}

    def flags(self, path: str) -> list[str]:
        """Return the flags of a file, which all judges share."""
        judged = (files for files in self.by_judge.values() if path in files)
        return next((files[path].flags for files in judged), [])


class Measurer:
    """Measure files with judges; each measurement is cached at once."""

    def __init__(self, cache: MeasurementCache, workers: Workers = HERE, batch: int = 1) -> None:
        self._cache, self._workers, self._batch = cache, workers, batch
        self._digests: dict[str, str] = {}
        self._errors: dict[str, str] = {}  # by digest

    def pending(self, wanted: Iterable[Wanted]) -> dict[str, Task]:
        """Return the files not measured yet by digest, each with the judges that want it."""
        tasks: dict[str, tuple[str, dict[Judge, None]]] = {}
        for judge, path in wanted:
            sha256 = self._digest(path)
            if sha256 is not None and sha256 not in self._cache.get(judge):
                tasks.setdefault(sha256, (path, {}))[1][judge] = None
        return {sha256: (path, tuple(judges)) for sha256, (path, judges) in tasks.items()}

    def measure(self, tasks: Iterable[Task]) -> Iterator[str]:
        """Measure files; yield the digest of each when it is done or has failed."""
        pieces = _pieces(tasks, self._batch)
        for (paths, judges), results in self._workers.each(measure_files, pieces):
            for path, result in zip(paths, results, strict=True):
                sha256 = self._digests[path]
                if isinstance(result, str):
                    self._errors[sha256] = result
                else:
                    for judge, one in zip(judges, result, strict=True):
                        self._cache.put(judge, sha256, one)
                yield sha256

    def measurements(self, wanted: Iterable[Wanted]) -> Measurements:
        """Return the measurements and errors of pairs that were all measured."""
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


def measure_files(piece: Piece) -> list[list[Measurement] | str]:
    """Return each file's measurements by all judges, or one line on why it cannot be read."""
    paths, judges = piece
    waves, results = {}, dict[str, list[Measurement] | str]()
    for path in paths:
        try:
            wave = load_wave(Path(path))
        except (OSError, ValueError) as error:
            results[path] = str(error)
            continue
        flags = flags_of(wave)
        if "empty_audio" in flags:
            results[path] = [Measurement(None, flags) for _ in judges]
        else:
            waves[path] = wave, flags
    audible = [wave for wave, _ in waves.values()]
    by_judge = [_loaded(judge)(audible) for judge in judges] if audible else []
    for index, (path, (_, flags)) in enumerate(waves.items()):
        found = (values[index] for values in by_judge)  # NaN and infinity are no measurement
        results[path] = [Measurement(None if not_finite(x) else x, flags) for x in found]
    return [results[path] for path in paths]


@functools.cache
def _loaded(judge: Judge) -> Measures:
    return load_many(judge)


def _pieces(tasks: Iterable[Task], batch: int) -> Iterator[Piece]:
    """Group neighbouring tasks of the same judges into pieces of up to `batch` files."""
    for judges, some in groupby(tasks, key=lambda task: task[1]):
        paths: Sequence[str] = [path for path, _ in some]
        for begin in range(0, len(paths), batch):
            yield tuple(paths[begin : begin + batch]), judges
