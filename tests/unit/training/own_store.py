"""A small codes store, and what a random target says of its texts."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from speculative_tts.commands import own_codes
from tests.fake_models import N_CODES, WORDS, FakeModels

LONG = "sampling.max_tokens_per_word=200"  # so that hardly any does not end


def rows(split: str, shard: int, count: int) -> list[dict[str, object]]:
    """Of two speakers and a third who says one thing alone."""
    speakers = ["a", "b"] * (count // 2) + ["c"] * (count % 2)
    return [
        {
            "id": f"{split}{shard}-{i}",
            "speaker": speaker,
            "split": split,
            "text": " ".join(WORDS[: 1 + i % 2]),
            "codes": [(7 * i + k) % N_CODES for k in range(4 + i)],
            "seconds": 1.0,
        }
        for i, speaker in enumerate(speakers)
    ]


def save_store(folder: Path) -> None:
    """Two training shards and a dev shard."""
    folder.mkdir()
    for name, made in (
        ("train-0000", rows("train", 0, 5)),
        ("train-0001", rows("train", 1, 4)),
        ("dev-0000", rows("dev", 0, 2)),
    ):
        pq.write_table(pa.Table.from_pylist(made), folder / f"{name}.parquet")


def make(models: FakeModels, tmp_path: Path, *settings: str) -> int:
    keys = [one for one in models.overrides if one.startswith(("target", "codec"))]
    given = [*keys, f"codes={tmp_path / 'codes'}", f"out={tmp_path / 'own'}", *settings]
    return own_codes.main(given)


def read(path: Path) -> list[dict[str, object]]:
    return pq.read_table(path).to_pylist()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.parquet"))
