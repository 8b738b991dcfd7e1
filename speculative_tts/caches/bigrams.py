"""Count bigrams of speech codes over the Parquet shards of a codes store, by workers.

Only pairs inside an utterance count. A shard is read a batch of rows at a time, and only distinct
pairs are stored, so memory follows their number and not the square of the vocabulary.
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
CHUNK = 2**22  # bigrams to gather before they are reduced to distinct ones
PARTS = 64  # pieces of work
Task = tuple[list[str], int, str]  # shards, codes of the vocabulary, column
Integers = NDArray[np.integer[Any]]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Bigrams:
    """Counts in CSR form: code i is followed by columns[offsets[i] : offsets[i + 1]], ascending."""

    offsets: Ints  # [size + 1]
    columns: Integers  # int32 [pairs]
    counts: Integers  # [pairs]
    unigrams: Ints  # [size], occurrences of each code, first and last ones of utterances too

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self.offsets) - 1

    @property
    def rows(self) -> Ints:
        """First code of each pair, int64 [pairs]."""
        return np.repeat(np.arange(self.size), np.diff(self.offsets))

    @property
    def total(self) -> int:
        """Number of bigrams counted."""
        return int(self.counts.sum(dtype=np.int64))


def count_bigrams(
    shards: Sequence[Path], size: int, *, column: str, workers: Workers = HERE
) -> Bigrams:
    """Count the bigrams of the training rows of `shards`; raise ValueError for an invalid shard."""
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
    """Distinct keys with counts; new ones are merged when they outnumber the merged ones."""

    def __init__(self) -> None:
        self.merged = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._new: list[tuple[Ints, Ints]] = []
        self._waiting = 0

    def add(self, keys: Ints, counts: Ints) -> None:
        self._new.append((keys, counts))
        self._waiting += len(keys)
        if self._waiting > max(len(self.merged[0]), CHUNK):
            self.total()

    def total(self) -> tuple[Ints, Ints]:
        """Merge all so far; return keys, ascending, and counts."""
        if self._new:
            keys, counts = map(np.concatenate, zip(self.merged, *self._new, strict=True))
            order = np.argsort(keys, kind="stable")
            keys, counts = keys[order], counts[order]
            first = np.flatnonzero(np.diff(keys, prepend=-1))
            self.merged = keys[first], np.add.reduceat(counts, first) if len(first) else counts
            self._new, self._waiting = [], 0
        return self.merged


def _count(task: Task) -> tuple[Ints, Ints, Ints]:
    """Count the pairs of some shards: distinct keys i * size + j, ascending, counts, unigrams."""
    paths, size, column = task
    unigrams, sums = np.zeros(size, np.int64), _Sums()
    waiting: list[Ints] = []
    for path in map(Path, paths):
        for codes, lengths in _batches(path, column):
            _check(codes, size, path)
            unigrams += np.bincount(codes, minlength=size)
            waiting.append(_pairs(codes, lengths, size))
            if sum(map(len, waiting)) > CHUNK:
                sums.add(*distinct(np.concatenate(waiting), size))
                waiting = []
    if waiting:
        sums.add(*distinct(np.concatenate(waiting), size))
    return *sums.total(), unigrams


def _check(codes: Ints, size: int, path: Path) -> None:
    if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < size:
        worst = min(int(codes.min()), 0) or int(codes.max())
        raise ValueError(
            f"{path} has code {worst}, the codec has 0 to {size - 1}; "
            "give the codes store and the codec that made it"
        )


def distinct(keys: Ints, size: int) -> tuple[Ints, Ints]:
    """Return distinct keys and counts, by a table of all pairs unless that is much larger."""
    if size * size > 4 * len(keys):
        distinct, counts = np.unique(keys, return_counts=True)
        return distinct, counts.astype(np.int64)
    table = np.bincount(keys, minlength=size * size)
    distinct = np.flatnonzero(table)
    return distinct, table[distinct]


def _pairs(codes: Ints, lengths: Ints, size: int) -> Ints:
    """Return the keys i * size + j of neighbours within an utterance, from joined codes."""
    keys = codes[:-1] * size + codes[1:]
    inside = np.ones(len(keys), bool)
    ends = np.cumsum(lengths[lengths > 0])[:-1] - 1  # the last code of every utterance but one
    inside[ends] = False
    return keys[inside]


def _batches(path: Path, column: str) -> Iterator[tuple[Ints, Ints]]:
    """Yield the joined codes of training rows and their lengths; of layered codes the first."""
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
