"""Transitions: counts equal a plain loop's, rows are laws, and another codec's are refused."""

import dataclasses
from collections import Counter
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from speculative_tts.caches import bigrams, store, transitions
from speculative_tts.caches.bigrams import Bigrams, count_bigrams
from speculative_tts.caches.transitions import LogTransitions, export_counts, find_or_count
from speculative_tts.schema.common import ClusterConfig, Smoothing, TransitionsConfig
from speculative_tts.workers import HERE, Processes, Workers

SIZE = 12
rng = np.random.default_rng(0)
UTTERANCES = [rng.integers(0, SIZE - 1, n).tolist() for n in (5, 1, 0, 9, 30, 2, 17)]


@pytest.fixture
def codec(tmp_path: Path) -> Path:
    folder = tmp_path / "codec"
    folder.mkdir()
    (folder / "codec.json").write_text("{}")
    return folder


@pytest.fixture
def config(codes: Path, tmp_path: Path) -> TransitionsConfig:
    return TransitionsConfig(codes=str(codes), cache=str(tmp_path / "caches"))


@pytest.fixture
def codes(tmp_path: Path) -> Path:
    folder = tmp_path / "codes"
    folder.mkdir()
    for index, rows in enumerate((UTTERANCES[:3], UTTERANCES[3:])):
        table = {
            "split": ["train"] * len(rows) + ["dev"],
            "codes": [*rows, [0, 0, 0, 0]],
            "layered": [[row, row[::-1]] for row in [*rows, [0, 0]]],
        }
        pq.write_table(pa.table(table), folder / f"train-{index}.parquet")
    return folder


def dense(logs: LogTransitions) -> np.ndarray:
    q = np.exp(logs.row[:, None].astype(float) + logs.column)
    for row in range(logs.size):
        at = slice(logs.offsets[row], logs.offsets[row + 1])
        q[row, logs.columns[at]] = np.exp(logs.seen[at])
    return q


def expected_counts() -> np.ndarray:
    found = Counter(pair for row in UTTERANCES for pair in pairwise(row))
    return np.array([[found[i, j] for j in range(SIZE)] for i in range(SIZE)])


@pytest.mark.parametrize(("workers", "column"), [(1, "codes"), (1, "layered"), (2, "codes")])
def test_counts_are_a_plain_loops(
    codes: Path, workers: int, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bigrams, "CHUNK", 7)  # many merges
    monkeypatch.setattr(bigrams, "ROWS", 2)
    many = HERE if workers == 1 else Processes(workers, retries=0)
    found = count_bigrams(sorted(codes.glob("*")), SIZE, column=column, workers=many)
    table = np.zeros((SIZE, SIZE), int)
    table[found.rows, found.columns] = found.counts
    assert (table == expected_counts()).all()
    assert (
        found.unigrams == np.bincount(np.concatenate(UTTERANCES).astype(int), minlength=SIZE)
    ).all()


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
def test_of_layers_the_first_is_counted(tmp_path: Path, kind: Any) -> None:
    rows = pa.array([[[3, 4], [5, 6]], [[4, 3]]], kind(kind(pa.int64())))
    pq.write_table(pa.table({"codes": rows}), tmp_path / "a.parquet")
    found = count_bigrams([tmp_path / "a.parquet"], SIZE, column="codes")
    assert list(zip(found.rows, found.columns, strict=True)) == [(3, 4), (4, 3)]


def test_a_row_without_layers_is_told(tmp_path: Path) -> None:
    pq.write_table(pa.table({"codes": [[[1, 2]], []]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a.parquet has a row without layers of codes"):
        count_bigrams([tmp_path / "a.parquet"], SIZE, column="codes")


@pytest.mark.parametrize(
    ("smoothing", "strength"), [("unigram", 1.0), ("add", 0.5), ("floor", 0.1), ("none", 1.0)]
)
def test_rows_are_laws_by_the_formula(
    config: TransitionsConfig, codec: Path, smoothing: str, strength: float
) -> None:
    asked = dataclasses.replace(config, smoothing=Smoothing[smoothing], strength=strength)
    q = dense(transitions.transitions(asked, ("tiny", codec), SIZE)[0])
    counts = expected_counts()
    n, seen = counts.sum(1, keepdims=True), counts.sum(1) > 0
    uniform, unigram = (
        1 / SIZE,
        (np.bincount(np.concatenate(UTTERANCES).astype(int), minlength=SIZE) + 1.0),
    )
    want = {
        "unigram": (counts + strength * unigram / unigram.sum()) / (n + strength),
        "add": (counts + strength) / (n + strength * SIZE),
        "floor": np.where(
            n > 0, (1 - strength) * counts / np.maximum(n, 1) + strength * uniform, uniform
        ),
        "none": counts / np.maximum(n, 1),
    }[smoothing]
    np.testing.assert_allclose(q, want, rtol=1e-5)
    np.testing.assert_allclose(q[seen].sum(1), 1, rtol=1e-5)
    assert (q.sum(1)[~seen] == 0).all() == (smoothing == "none")


def test_the_store_finds_what_it_made_and_shipped_counts_equal_it(
    config: TransitionsConfig, codec: Path, tmp_path: Path
) -> None:
    entry = find_or_count(config, ("tiny", codec), SIZE)
    assert find_or_count(config, ("tiny", codec), SIZE).folder == entry.folder
    assert (entry.description["smoothing"], entry.description["strength"]) == ("unigram", 1.0)
    export_counts(entry, tmp_path / "shipped")
    logs, _ = transitions.transitions(config, ("tiny", codec), SIZE)
    for path in (tmp_path / "shipped", entry.folder):
        for strength in (1.0, 2.0):
            named = dataclasses.replace(config, path=str(path), strength=strength)
            again, facts = transitions.transitions(named, ("tiny", codec), SIZE)
            assert np.allclose(dense(again), dense(logs)) == (strength == 1)
            assert facts["bigrams"] == expected_counts().sum()


@pytest.mark.parametrize(
    ("size", "row", "count", "kind"),
    [
        (2**16, [2**16 - 1], 1, "uint16"),
        (2**16 + 1, [2**16], 1, "int64"),
        (2**16, list(range(2**16)), 1, "int64"),  # so many behind one code
        (3, [2], 2**16 - 1, "uint16"),
        (3, [2], 2**16, "int64"),
    ],
)
def test_shipped_counts_are_as_wide_as_their_largest_number(
    tmp_path: Path, size: int, row: list[int], count: int, kind: str
) -> None:
    """Pairs that begin with code 0, each so often."""
    offsets = np.full(size + 1, len(row))
    offsets[0] = 0
    given = Bigrams(offsets, np.array(row), np.full(len(row), count), np.ones(size, int))
    description = {"codec": "c", "codes": "d", "column": "codes", "size": size}
    entry = store.Entry(tmp_path, "transitions", dataclasses.asdict(given), description, {})
    export_counts(entry, tmp_path)
    found = transitions.shipped(tmp_path)[1]
    for name, array in dataclasses.asdict(given).items():
        np.testing.assert_array_equal(getattr(found, name), array)
    with np.load(tmp_path / "counts.npz") as shipped:
        assert {shipped[name].dtype.name for name in ("lengths", "columns", "counts")} == {kind}


def test_a_row_that_was_seen_once_is_a_seen_row() -> None:
    """By the floor 0.3 of the uniform third, and 0.7 of what was seen."""
    once = Bigrams(np.array([0, 1, 1, 1]), np.array([1]), np.array([1]), np.array([1, 1, 0]))
    logs = transitions.smooth(once, Smoothing.floor, 0.3)
    third = [1 / 3] * 3
    assert {part.dtype.name for part in (logs.seen, logs.row, logs.column)} == {"float32"}
    np.testing.assert_allclose(dense(logs), [[0.1, 0.8, 0.1], third, third], rtol=1e-6)


def test_what_people_are_told_of_counts(
    config: TransitionsConfig, codec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of pairs counted in 1.234 s."""
    clock = iter((10.0, 11.234))
    monkeypatch.setattr(transitions.time, "perf_counter", lambda: next(clock))
    config = dataclasses.replace(config, workers=1)
    logs, told = transitions.transitions(config, ("tiny", codec), SIZE)
    counts = expected_counts()
    pairs, total = int((counts > 0).sum()), int(counts.sum())
    assert told == {
        "folder": str(next((tmp_path / "caches").glob("transitions-*"))),
        "codes": SIZE,
        "bigrams": total,
        "distinct": pairs,
        "per_row": round(pairs / SIZE, 1),
        "repeats": round(int(counts.trace()) / total, 4),
        "seconds": 1.23,
        "bigrams_per_second": round(total / 1.234),
    }
    other = {"smoothing": Smoothing.add, "strength": 0.5, "path": told["folder"]}
    again, _ = transitions.transitions(dataclasses.replace(config, **other), ("tiny", codec), SIZE)
    below = counts.sum(1, keepdims=True) + 0.5 * SIZE
    np.testing.assert_allclose(dense(again), (counts + 0.5) / below, rtol=1e-5)
    assert logs.size == SIZE


@pytest.mark.parametrize(("above", "processes"), [(1, 1), (0, 3)])
def test_few_codes_are_counted_here_and_many_by_processes(
    config: TransitionsConfig,
    codes: Path,
    codec: Path,
    monkeypatch: pytest.MonkeyPatch,
    above: int,
    processes: int,
) -> None:
    """Of shards as large as the limit, and of a limit one byte above them."""
    asked: list[Any] = []
    many = Workers()

    def workers(*given: Any) -> Any:
        asked.append(given)
        return nullcontext(many)

    def count(*given: Any, workers: Workers = HERE, **options: Any) -> Bigrams:
        asked.append(workers)
        return count_bigrams(*given, workers=workers, **options)

    monkeypatch.setattr(transitions, "workers", workers)
    monkeypatch.setattr(transitions, "count_bigrams", count)
    size = sum(shard.stat().st_size for shard in codes.iterdir())
    monkeypatch.setattr(transitions, "SMALL", size + above)
    find_or_count(dataclasses.replace(config, workers=3), ("tiny", codec), SIZE)
    assert asked == [(ClusterConfig(), processes), many]


def test_without_smoothing_any_strength_is_the_same(
    config: TransitionsConfig, codec: Path, tmp_path: Path
) -> None:
    for strength in (1.0, 2.0):
        asked = dataclasses.replace(config, smoothing=Smoothing.none, strength=strength)
        assert find_or_count(asked, ("tiny", codec), SIZE).description["strength"] is None
    assert len(list((tmp_path / "caches").glob("transitions-*"))) == 1


@pytest.mark.parametrize("most", [2**31 - 1, 2**31])
def test_a_pair_may_come_more_often_than_four_bytes_hold(
    config: TransitionsConfig, codec: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    def count(*given: Any, **options: Any) -> bigrams.Bigrams:
        found = count_bigrams(*given, **options)
        found.counts[0] = most
        return found

    monkeypatch.setattr(transitions, "count_bigrams", count)
    entry = find_or_count(config, ("tiny", codec), SIZE)
    assert entry.arrays["counts"][0] == most
    assert entry.arrays["counts"].itemsize == (4 if most < 2**31 else 8)


def test_mistakes_are_told(config: TransitionsConfig, codec: Path, tmp_path: Path) -> None:
    entry = find_or_count(config, ("tiny", codec), SIZE)
    named = dataclasses.replace(config, path=str(entry.folder))
    with pytest.raises(
        ValueError, match=r"another codec.* its size is 12, that of .* is 13; count"
    ):
        transitions.transitions(named, ("tiny", codec), SIZE + 1)
    (codec / "codec.json").write_text("[]")
    with pytest.raises(ValueError, match=r"another codec.* codec is \w{12}, that of .* is \w{12};"):
        transitions.transitions(named, ("tiny", codec), SIZE)
    with pytest.raises(ValueError, match="the codec has 0 to 4"):
        find_or_count(config, ("tiny", codec), 5)
    groups = store.save_entry(tmp_path, "groups", {}, {"scores": np.ones(3)}, {})
    for wrong, text in (
        ({"smoothing": Smoothing.floor}, "not in"),
        ({"smoothing": Smoothing.floor, "strength": 0.0}, r"strength 0.0 is not in \(0, 1\)"),
        ({"codes": str(tmp_path)}, "no Parquet"),
        ({"column": "layers"}, "no column layers"),
        ({"path": str(codec)}, "is no cache, it has codec.json; make transitions with"),
        ({"path": str(groups)}, r"holds groups \(scores\), and transitions are offsets, col"),
    ):
        with pytest.raises(ValueError, match=text):
            transitions.transitions(dataclasses.replace(config, **wrong), ("tiny", codec), SIZE)
