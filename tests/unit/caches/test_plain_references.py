"""Vectors, likeness and counts beside references in plain loops."""

from collections import Counter
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy.stats import spearmanr
from toy_lists import ToyCodec
from transformers.audio_utils import mel_filter_bank

from speculative_tts.caches import bigrams, likeness, vectors
from speculative_tts.caches.bigrams import Bigrams, count_bigrams

RATE = 8000


class Humming(ToyCodec):
    """A code is 640 samples of a tone of its own, the louder the farther from code 2."""

    def __init__(self) -> None:
        super().__init__(sample_rate=RATE, token_rate=12.5)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        self.decoded.append(codes)
        time = np.arange(640) / RATE
        tones = np.sin(2 * np.pi * 300 * np.outer(codes + 1, time))
        return ((0.01 + np.abs(codes - 2))[:, None] * tones).ravel().astype(np.float32)


def slow_log_mel(wave: np.ndarray) -> np.ndarray:
    """Frames of 200 samples, every 80, centred; 256 points; Slaney's bands, periodic Hann."""
    padded = np.pad(wave.astype(float), 128)
    window = np.zeros(256)
    window[28:228] = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(200) / 200)
    frames = [window * padded[at : at + 256] for at in range(0, len(wave) + 1, 80)]
    power = np.abs(np.fft.rfft(frames)) ** 2
    bank = mel_filter_bank(129, 80, 0.0, RATE / 2, RATE, norm="slaney", mel_scale="slaney")
    return np.log(np.maximum(power @ bank, 1e-10))


def test_log_mel_is_that_of_the_definition() -> None:
    wave = Humming().decode(np.array([4, 2, 0])).astype(np.float64)
    found = vectors.log_mel(wave, RATE).numpy()
    assert found.shape == (25, 80)
    np.testing.assert_allclose(found, slow_log_mel(wave), atol=0.03)
    assert vectors.log_mel(np.zeros(800), RATE).max() == pytest.approx(np.log(1e-10))


@pytest.mark.parametrize("chunk", [256, 4])
def test_mel_vectors_are_those_of_the_definition(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each code between three of the quietest; frames centred within it, less the mean of all."""
    monkeypatch.setattr(vectors, "CHUNK", chunk)
    stages: list[tuple[str, int, list[int]]] = []

    @contextmanager
    def stage(name: str, work: int) -> Any:
        stages.append((name, work, []))
        yield stages[-1][2].append

    codec, n = Humming(), 6
    found = vectors.mel_vectors(codec, n, stage)
    quiet = 2
    frames = []
    for code in range(n):
        mel = slow_log_mel(Humming().decode(np.array([quiet] * 3 + [code] + [quiet] * 3)))
        frames.append(mel[24:32].mean(0))  # 80 ms a token, a frame each 10 ms
    expected = np.array(frames) - np.mean(frames, axis=0)
    np.testing.assert_allclose(found.numpy(), expected, atol=0.03)
    parts = [6] if chunk == 256 else [4, 2]
    assert stages == [("silence", n, parts), ("mel frames", n, parts)]
    last = range(n - parts[-1], n)
    assert codec.decoded[-1].tolist() == [c for code in last for c in (2, 2, 2, code)] + [2] * 3


def test_the_quietest_code_is_heard_in_its_middle() -> None:
    """Louder at its ends, in the tokens beside the middle one of three."""

    class Edged(ToyCodec):
        def decode(self, codes: np.ndarray) -> np.ndarray:
            wave = super().decode(codes)
            for n, code in enumerate(codes):
                if n % 3 != 1 and code == 1:
                    wave[4 * n : 4 * n + 4] = 9
            return wave

    codec = Edged(sample_rate=100)  # four samples a code
    assert vectors.quietest(codec, 6) == 0
    assert codec.decoded[0].tolist() == [code for code in range(6) for _ in range(3)]

    class Backwards(Edged):
        def decode(self, codes: np.ndarray) -> np.ndarray:
            wave = super().decode(codes)
            return np.where(wave == 9, wave, 0.55 - wave)

    assert vectors.quietest(Backwards(sample_rate=100), 6) == 5
    assert vectors.quietest(Backwards(sample_rate=100), 2) == 1


def test_embeddings_are_told_apart_by_values_type_and_shape() -> None:
    rows = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    others = [rows.reshape(4, 3), rows + 1, rows.view(torch.int32), rows.bfloat16()]
    assert len({vectors.embedding_hash(one) for one in [rows, *others]}) == 5
    assert vectors.embedding_hash(rows.clone()) == vectors.embedding_hash(rows)


def slow_likeness(unit: torch.Tensor, codebook: torch.Tensor, nearest: int) -> dict[str, Any]:
    n = len(unit)
    cosine = (unit @ unit.T).numpy()
    distance = np.linalg.norm(codebook[:, None].numpy() - codebook[None].numpy(), axis=-1)
    pairs = np.triu_indices(n, 1)
    places, shared, near = [], 0, min(nearest, n - 2)
    for token in range(n):
        others = [other for other in range(n) if other != token]
        by_sound = sorted(others, key=lambda other: distance[token, other])
        for other in sorted(others, key=lambda other: -cosine[token, other])[:near]:
            places.append(by_sound.index(other))
            shared += by_sound.index(other) < near
    return {
        "tokens": n,
        "spearman": round(float(spearmanr(cosine[pairs], -distance[pairs])[0]), 4),
        "nearest": near,
        "percentile": round(100 * float(np.mean(places)) / (n - 2), 2),
        "overlap": round(shared / len(places), 4),
    }


@pytest.mark.parametrize(("n", "nearest"), [(3, 50), (4, 50), (40, 50), (40, 7)])
def test_likeness_is_that_of_plain_loops(
    n: int, nearest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(likeness, "NEAREST", nearest)
    random = torch.Generator().manual_seed(n)
    codebook = torch.randn(n, 3, generator=random)
    unit = torch.nn.functional.normalize(
        torch.cat([codebook, torch.randn(n, 2, generator=random)], 1)
    )
    assert likeness.likeness(unit, codebook) == slow_likeness(unit, codebook, nearest)


def test_likeness_of_many_is_that_of_some_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likeness, "TOKENS", 12)
    random = torch.Generator().manual_seed(5)
    codebook, unit = torch.randn(30, 4, generator=random), torch.randn(30, 4, generator=random)
    unit = torch.nn.functional.normalize(unit)
    chosen = torch.randperm(30, generator=torch.Generator().manual_seed(0))[:12].sort().values
    expected = slow_likeness(unit[chosen], codebook[chosen], 50)
    assert likeness.likeness(unit, codebook.double()) == expected


def test_fewer_than_three_tokens_have_no_order() -> None:
    nothing = {"spearman": None, "nearest": 0, "percentile": None, "overlap": None}
    for n in range(3):
        assert likeness.likeness(torch.eye(n), torch.eye(n)) == {"tokens": n, **nothing}


def slow_bigrams(rows: list[list[int]], size: int) -> tuple[np.ndarray, np.ndarray]:
    table = np.zeros((size, size), int)
    for (first, second), count in Counter(p for row in rows for p in pairwise(row)).items():
        table[first, second] = count
    return table, np.bincount([code for row in rows for code in row], minlength=size)


def written(folder: Path, shards: list[list[list[int]]], **columns: Any) -> list[Path]:
    paths = []
    for number, rows in enumerate(shards):
        paths.append(folder / f"{number:03}.parquet")
        table = {"codes": pa.array(rows, pa.list_(pa.int16()))}
        pq.write_table(
            pa.table(table | {n: [v] * len(rows) for n, v in columns.items()}), paths[-1]
        )
    return paths


class Noting:
    """Workers that keep their tasks and do them here."""

    def __init__(self) -> None:
        self.tasks: list[Any] = []

    def each(self, work: Any, tasks: list[Any]) -> Any:
        self.tasks = tasks
        return ((task, work(task)) for task in tasks)


@pytest.mark.parametrize("chunk", [2**22, 5])
@pytest.mark.parametrize("shards", [1, 4, 5])
def test_bigrams_are_those_of_plain_loops(
    tmp_path: Path, shards: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the number of shards, in at most 4 pieces of work, with utterances of no code."""
    monkeypatch.setattr(bigrams, "PARTS", 4)
    monkeypatch.setattr(bigrams, "CHUNK", chunk)
    rng = np.random.default_rng(shards)
    rows = [[rng.integers(0, 5, n).tolist() for n in (4, 0, 1, 3)] for _ in range(shards)]
    paths, many = written(tmp_path, rows), Noting()
    found = count_bigrams(paths, 6, column="codes", workers=many)  # type: ignore[arg-type]
    table, unigrams = slow_bigrams([row for part in rows for row in part], 6)
    dense = np.zeros((6, 6), int)
    dense[found.rows, found.columns] = found.counts
    np.testing.assert_array_equal(dense, table)
    np.testing.assert_array_equal(found.unigrams, unigrams)
    assert (found.size, found.total, found.columns.dtype) == (6, table.sum(), np.int32)
    assert len(found.columns) == (table > 0).sum()
    assert [path for task in many.tasks for path in task[0]] == list(map(str, paths))
    assert max(len(task[0]) for task in many.tasks) == -(-shards // 4)
    assert {task[1:] for task in many.tasks} == {(6, "codes")}


def test_rows_of_other_splits_do_not_count(tmp_path: Path) -> None:
    (train,) = written(tmp_path, [[[0, 1, 1]]], split="train")
    assert count_bigrams([train], 2, column="codes").counts.tolist() == [1, 1]
    (dev,) = written(tmp_path, [[[0, 1, 1]]], split="dev")
    nothing = count_bigrams([dev], 2, column="codes")
    assert (nothing.total, nothing.offsets.tolist()) == (0, [0, 0, 0])
    assert nothing.unigrams.tolist() == [0, 0]
    (alone,) = written(tmp_path, [[[1]]])
    assert count_bigrams([alone], 2, column="codes").unigrams.tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"000.parquet has no column tokens; it has codes$"):
        count_bigrams([alone], 2, column="tokens")


@pytest.mark.parametrize(("code", "size"), [(-1, 3), (3, 3), (7, 3)])
def test_codes_beyond_the_codecs_are_told(tmp_path: Path, code: int, size: int) -> None:
    (path,) = written(tmp_path, [[[0, code], [size - 1]]])
    with pytest.raises(ValueError, match=rf"has code {code}, the codec has 0 to 2; give the codes"):
        count_bigrams([path], size, column="codes")


def test_sums_are_merged_when_what_is_new_outgrows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bigrams, "CHUNK", 3)
    sums, merges = bigrams._Sums(), []
    for keys in ([4, 7], [4], [1], [0, 4, 9], [5], [0, 1, 2, 3, 4, 5], [6]):
        sums.add(np.array(keys), np.full(len(keys), 2))
        merges.append(len(sums.merged[0]))
    assert merges == [0, 0, 3, 3, 6, 6, 9]  # 3 new ones are not above 3, nor 6 above 6
    sums.add(np.array([8]), np.array([1]))
    keys, counts = sums.total()
    assert dict(zip(keys.tolist(), counts.tolist(), strict=True)) == {
        0: 4,
        1: 4,
        2: 2,
        3: 2,
        4: 8,
        5: 4,
        6: 2,
        7: 2,
        8: 1,
        9: 2,
    }
    assert keys.tolist() == sorted(keys.tolist())
    again = sums.total()
    assert again[0] is keys


@pytest.mark.parametrize("count", [3, 4, 5])
def test_distinct_keys_by_table_or_by_sorting(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of all 16 pairs once there are at least four times as few of them as keys."""
    keys, sorts = np.array([3, 1, 3, 0, 3])[:count], []
    unique = np.unique
    monkeypatch.setattr(np, "unique", lambda *a, **b: sorts.append(1) or unique(*a, **b))
    found, counts = bigrams.distinct(keys, 4)
    expected = Counter(keys.tolist())
    assert dict(zip(found.tolist(), counts.tolist(), strict=True)) == expected
    assert found.tolist() == sorted(expected)
    assert len(sorts) == (count < 4)


def test_totals_are_counted_in_eight_bytes() -> None:
    counts = np.full(3, 2**30, np.int32)
    large = Bigrams(np.array([0, 1, 3]), np.array([0, 0, 1]), counts, np.array([1, 2]))
    assert large.total == 3 * 2**30
    assert large.rows.tolist() == [0, 1, 1]
