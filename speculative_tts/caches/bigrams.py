"""Bigrams of speech codes, counted over the Parquet shards of a codes store by workers.

Only pairs inside an utterance count. A shard is read a batch of rows at a time; what is kept is the
distinct pairs, so memory follows their number and not the square of the vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speculative_tts.progress import progress
from speculative_tts.shards import shard
from speculative_tts.workers import HERE, Workers

ROWS = 4096  # utterances read at a time
CHUNK = 2**22  # bigrams that are gathered before they are reduced to distinct ones
PARTS = 64  # pieces of work
Task = tuple[list[str], int, str]  # shards, codes of the vocabulary, column
Integers = NDArray[np.integer[Any]]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Bigrams:
    """CSR: code i was followed by columns[offsets[i]:offsets[i + 1]], ascending, counts times."""

    offsets: Ints  # [size + 1]
    columns: Integers  # int32 [pairs]
    counts: Integers  # [pairs]
    unigrams: Ints  # [size], how often each code occurs, first and last ones of utterances too

    @property
    def size(self) -> int:
        """Codes."""
        return len(self.offsets) - 1

    @property
    def rows(self) -> Ints:
        """The first code of each pair, int64 [pairs]."""
        return np.repeat(np.arange(self.size), np.diff(self.offsets))

    @property
    def total(self) -> int:
        """Bigrams counted."""
        return int(self.counts.sum(dtype=np.int64))


def count_bigrams(
    shards: Sequence[Path], size: int, *, column: str, workers: Workers = HERE
) -> Bigrams:
    """Bigrams of the training rows of `shards`. ValueError for a shard or code that cannot be."""
    parts = -(-len(shards) // PARTS)
    tasks = [
        ([str(shard) for shard in shards[begin : begin + parts]], size, column)
        for begin in range(0, len(shards), parts)
    ]
    sums = _Sums()
    unigrams = np.zeros(size, np.int64)
    with progress(total=len(shards), desc="bigrams", unit="shard") as bar:
        for (paths, _, _), (keys, counts, single) in workers.each(_count, tasks):
            sums.add(keys, counts)
            unigrams += single
            bar.update(len(paths))
    keys, counts = sums.total()
    offsets = np.searchsorted(keys, np.arange(size + 1, dtype=np.int64) * size)
    return Bigrams(offsets, (keys % size).astype(np.int32), counts, unigrams)


class _Sums:
    """Distinct keys and their counts, merged whenever what is new outgrows what is merged."""

    def __init__(self) -> None:
        self._merged = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._new: list[tuple[Ints, Ints]] = []
        self._waiting = 0

    def add(self, keys: Ints, counts: Ints) -> None:
        """More of them; keys are distinct."""
        self._new.append((keys, counts))
        self._waiting += len(keys)
        if self._waiting > max(len(self._merged[0]), CHUNK):
            self.total()

    def total(self) -> tuple[Ints, Ints]:
        """All so far, keys ascending."""
        if self._new:
            keys, counts = map(np.concatenate, zip(self._merged, *self._new, strict=True))
            order = np.argsort(keys, kind="stable")
            keys, counts = keys[order], counts[order]
            first = np.flatnonzero(np.diff(keys, prepend=-1))
            self._merged = keys[first], np.add.reduceat(counts, first) if len(first) else counts
            self._new, self._waiting = [], 0
        return self._merged


def _count(task: Task) -> tuple[Ints, Ints, Ints]:
    """Distinct pairs of some shards as i * size + j ascending, how often each, and unigrams."""
    paths, size, column = task
    unigrams, sums = np.zeros(size, np.int64), _Sums()
    waiting: list[Ints] = []
    for path in map(Path, paths):
        for codes, lengths in _batches(path, column):
            _check(codes, size, path)
            unigrams += np.bincount(codes, minlength=size)
            waiting.append(_pairs(codes, lengths, size))
            if sum(map(len, waiting)) > CHUNK:
                sums.add(*_distinct(np.concatenate(waiting), size))
                waiting = []
    if waiting:
        sums.add(*_distinct(np.concatenate(waiting), size))
    return *sums.total(), unigrams


def _check(codes: Ints, size: int, path: Path) -> None:
    if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < size:
        worst = min(int(codes.min()), 0) or int(codes.max())
        raise ValueError(
            f"{path} has code {worst}, the codec has 0 to {size - 1}; "
            "give the codes store and the codec that made it"
        )


def _distinct(keys: Ints, size: int) -> tuple[Ints, Ints]:
    """Distinct keys and counts: by a table of all pairs if it is not much larger than the keys."""
    if size * size > 4 * len(keys):
        found, counts = np.unique(keys, return_counts=True)
        return found, counts.astype(np.int64)
    table = np.bincount(keys, minlength=size * size)
    found = np.flatnonzero(table)
    return found, table[found]


def _pairs(codes: Ints, lengths: Ints, size: int) -> Ints:
    """Keys i * size + j of neighbours within an utterance; codes of all utterances are joined."""
    keys = codes[:-1] * size + codes[1:]
    inside = np.ones(len(keys), bool)
    ends = np.cumsum(lengths[lengths > 0])[:-1] - 1  # the last code of every utterance but one
    inside[ends] = False
    return keys[inside]


def _batches(path: Path, column: str) -> Iterator[tuple[Ints, Ints]]:
    """Codes of training rows joined, and their lengths; of nested codes the first layer."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with shard(path):
        file = pq.ParquetFile(path)
    names = file.schema_arrow.names
    if column not in names:
        raise ValueError(f"{path} has no column {column}; it has {', '.join(names)}")
    wanted = [name for name in (column, "split") if name in names]
    for batch in file.iter_batches(ROWS, columns=wanted):
        table = pa.Table.from_batches([batch])
        if "split" in names:
            table = table.filter(pc.equal(table["split"], "train"))
        rows = table[column].combine_chunks()
        with shard(path):
            if pa.types.is_nested(rows.type) and pa.types.is_nested(rows.type.value_type):
                if pc.any(pc.equal(pc.list_value_length(rows), 0)).as_py():
                    raise ValueError(f"{path} has a row without layers of codes; prepare it again")
                rows = pc.list_element(rows, 0)
            lengths = pc.list_value_length(rows).to_numpy(zero_copy_only=False).astype(np.int64)
            codes = pc.list_flatten(rows).to_numpy(zero_copy_only=False).astype(np.int64)
        yield codes, lengths
