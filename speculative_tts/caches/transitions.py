"""Count, smooth and store transition probabilities between neighbouring codes.

Q(i, j) is the probability of code j after code i (Nguyen et al., 2025, section III-B), from counts
inside utterances. A matrix is sparse: observed pairs are stored, and unobserved ones are a product
of a number of the row and one of the column, so that 65,536 codes need no square.

    unigram  (N_ij + a p_j) / (N_i + a), p the unigrams (add-one); the default, a = 1
    add      (N_ij + a) / (N_i + a size)
    floor    (1 - a) N_ij / N_i + a / size
    none     N_ij / N_i; an unobserved pair is impossible
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speculative_tts.caches import store
from speculative_tts.caches.bigrams import Bigrams, count_bigrams
from speculative_tts.cluster import workers
from speculative_tts.files import file_hash, writing
from speculative_tts.provenance import content_hash
from speculative_tts.schema.common import ClusterConfig, Smoothing, TransitionsConfig
from speculative_tts.typed import write_json

KIND = "transitions"
SMALL = 2**25  # bytes of shards below which starting processes takes longer than counting
COUNTS, ABOUT = "counts.npz", "transitions.json"  # files of shipped counts, compressed
# Arrays of a cache: the fields of `Bigrams` and of `LogTransitions`.
COUNTED = ("offsets", "columns", "counts", "unigrams")
LOGS = ("offsets", "columns", "seen", "row", "column")
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class LogTransitions:
    """log Q(i, j): `seen` for stored pairs (CSR), else row[i] + column[j], perhaps -inf."""

    offsets: NDArray[Any]  # int64 [size + 1]
    columns: NDArray[Any]  # int32 [pairs], ascending in a row
    seen: Floats  # [pairs]
    row: Floats  # [size]
    column: Floats  # [size]

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self.row)


def check(config: TransitionsConfig) -> None:
    """Raise ValueError for a strength that is no share where the smoothing takes one."""
    if config.smoothing is Smoothing.floor and not 0 < config.strength < 1:
        raise ValueError(
            f"strength {config.strength} is not in (0, 1), the uniform share of smoothing=floor"
        )


def smooth(bigrams: Bigrams, smoothing: Smoothing, strength: float) -> LogTransitions:
    """Compute log probabilities by the module's formulas."""
    size, a = bigrams.size, strength
    rows, columns = bigrams.rows, bigrams.columns
    followed = np.bincount(rows, bigrams.counts, size)  # N_i
    counts = bigrams.counts.astype(np.float64)
    if smoothing is Smoothing.unigram:
        prior = (bigrams.unigrams + 1) / (bigrams.unigrams.sum() + size)
        seen, row, column = counts + a * prior[columns], a / (followed + a), prior
        seen = seen / (followed + a)[rows]
    elif smoothing is Smoothing.add:
        below = followed + a * size
        seen, row, column = (counts + a) / below[rows], a / below, np.ones(size)
    else:
        share = a if smoothing is Smoothing.floor else 0.0
        seen = (1 - share) * counts / followed[rows] + share / size
        row, column = np.where(followed > 0, share, float(share > 0)) / size, np.ones(size)
    with np.errstate(divide="ignore"):
        logs = [np.log(part).astype(np.float32) for part in (seen, row, column)]
    return LogTransitions(bigrams.offsets, bigrams.columns, *logs)


def transitions(
    config: TransitionsConfig, codec: tuple[str, Path], n_codes: int
) -> tuple[LogTransitions, dict[str, Any]]:
    """Return the transitions of `config` for this codec (name, folder), and facts about them.

    They come from the folder config.path, else from the store, else are counted now. Raise
    ValueError for another codec's, a damaged folder, or a codes store that cannot be counted.
    """
    check(config)
    if config.path is not None:
        return _open_named(Path(config.path), config, codec, n_codes)
    entry = find_or_count(config, codec, n_codes)
    return _of_entry(entry), {"folder": str(entry.folder), **entry.facts}


def find_or_count(
    config: TransitionsConfig,
    codec: tuple[str, Path],
    n_codes: int,
    cluster: ClusterConfig | None = None,
) -> store.Entry:
    """Open or count the cache of a codes store, keyed by its shards, codec and smoothing."""
    check(config)
    shards = sorted(Path(config.codes).glob("*.parquet"))
    if not shards:
        raise ValueError(
            f"no Parquet shards in {config.codes}; make them with sst-prepare or give "
            "transitions.codes=<folder>"
        )
    description = {
        "codec": content_hash(codec[1]),
        "codes": store.key_of({shard.name: file_hash(shard) for shard in shards}),
        "column": config.column,
        "size": n_codes,
        "smoothing": config.smoothing.name,
        "strength": None if config.smoothing is Smoothing.none else config.strength,
    }

    def make() -> tuple[dict[str, Any], dict[str, Any]]:
        begin = time.perf_counter()
        small = sum(shard.stat().st_size for shard in shards) < SMALL
        with workers(cluster or ClusterConfig(), 1 if small else config.workers) as many:
            bigrams = count_bigrams(shards, n_codes, column=config.column, workers=many)
        if not bigrams.total:
            raise ValueError(f"{config.codes} has no two codes in a row; is it the right store?")
        seconds = time.perf_counter() - begin
        return _arrays(bigrams, smooth(bigrams, config.smoothing, config.strength)), {
            **facts(bigrams),
            "seconds": round(seconds, 2),
            "bigrams_per_second": round(bigrams.total / seconds),
        }

    return store.find_or_make(Path(config.cache), KIND, description, make)


def facts(bigrams: Bigrams) -> dict[str, Any]:
    """Return the figures of counts that commands print."""
    return {
        "codes": bigrams.size,
        "bigrams": bigrams.total,
        "distinct": len(bigrams.columns),
        "per_row": round(len(bigrams.columns) / bigrams.size, 1),
        "repeats": round(
            float(bigrams.counts[bigrams.rows == bigrams.columns].sum()) / bigrams.total, 4
        ),
    }


def _arrays(bigrams: Bigrams, logs: LogTransitions) -> dict[str, Any]:
    narrow = np.int32 if bigrams.counts.max(initial=0) < 2**31 else np.int64
    return {
        "offsets": bigrams.offsets,
        "columns": bigrams.columns,
        "counts": bigrams.counts.astype(narrow),
        "unigrams": bigrams.unigrams,
        "seen": logs.seen,
        "row": logs.row,
        "column": logs.column,
    }


def _of_entry(entry: store.Entry) -> LogTransitions:
    return LogTransitions(*(entry.arrays[name] for name in LOGS))


def _bigrams(arrays: Mapping[str, NDArray[Any]]) -> Bigrams:
    return Bigrams(*(arrays[name] for name in COUNTED))


def export_counts(entry: store.Entry, folder: Path) -> None:
    """Write a cache's counts alone, compressed, as they are shipped; reading smooths them."""
    bigrams = _bigrams(entry.arrays)
    lengths = np.diff(bigrams.offsets)
    small = (
        np.uint16
        if max(bigrams.size - 1, bigrams.counts.max(), lengths.max()) < 2**16
        else np.int64
    )
    with writing(folder / COUNTS) as file:
        np.savez_compressed(
            file,
            lengths=lengths.astype(small),
            columns=bigrams.columns.astype(small),
            counts=bigrams.counts.astype(small),
            unigrams=bigrams.unigrams,
        )
    about = {name: entry.description[name] for name in ("codec", "codes", "column", "size")}
    write_json(folder / ABOUT, {**about, "facts": facts(bigrams)})


def _open_named(
    folder: Path, config: TransitionsConfig, codec: tuple[str, Path], n_codes: int
) -> tuple[LogTransitions, dict[str, Any]]:
    """Open the folder that was asked for: a cache of the store, or shipped counts."""
    if (folder / ABOUT).is_file():
        description, bigrams = shipped(folder)
        stored, about = None, description.pop("facts")
    else:
        entry = store.open_named(folder, KIND, dict.fromkeys((*COUNTED, *LOGS)))
        bigrams, stored = _bigrams(entry.arrays), _of_entry(entry)
        description, about = entry.description, entry.facts
    expected = {"codec": content_hash(codec[1]), "size": n_codes}
    for name, value in expected.items():
        if description.get(name) != value:
            raise ValueError(
                f"transitions {folder} were counted on another codec's codes: its {name} is "
                f"{store.shorten(description.get(name))}, that of {codec[1]} is "
                f"{store.shorten(value)}; count this codec's with sst-precompute cache=transitions"
            )
    same = {"smoothing": config.smoothing.name, "strength": config.strength}
    if stored is not None and all(description.get(key) == value for key, value in same.items()):
        return stored, about
    return smooth(bigrams, config.smoothing, config.strength), about


def shipped(folder: Path) -> tuple[dict[str, Any], Bigrams]:
    """Read the counts that `ship` wrote, and what they were made of."""
    try:
        description: dict[str, Any] = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        with np.load(folder / COUNTS) as arrays:
            offsets = np.concatenate([[0], np.cumsum(arrays["lengths"], dtype=np.int64)])
            columns, counts = arrays["columns"].astype(np.int32), arrays["counts"]
            return description, Bigrams(offsets, columns, counts, arrays["unigrams"])
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"transitions {folder} are damaged ({error}); copy them again") from error
