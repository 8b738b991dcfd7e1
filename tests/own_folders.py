"""Folders of a stranger who follows docs/own-model.md: own configurations, texts and codes."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

TEXTS = ("The ferry leaves at seven.", "Would you read it again?", "Keep the lamp lit.")


def write_configs(folder: Path, **contents: str) -> None:
    """Write `my-configs/<group>/mine.yaml` below a folder for each group."""
    for group, content in contents.items():
        path = folder / "my-configs" / group / "mine.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(content)


def write_list(path: Path, texts: Iterable[str], **same: Any) -> None:
    """Write a test list of these texts, with what each row has."""
    rows = [{"id": f"u{n}", "text": text} | same for n, text in enumerate(texts)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def frames(rng: np.random.Generator, books: int, size: int) -> list[int]:
    """Draw three frames of a code of each book; the next book's codes follow this one's."""
    return (rng.integers(0, size, (3, books)) + size * np.arange(books)).reshape(-1).tolist()


def write_codes(
    folder: Path,
    codes: Callable[[], list[int]],
    texts: Iterable[str] = TEXTS,
    *,
    train: int = 12,
    speakers: int = 2,
    **same: Any,
) -> None:
    """Write a store of so many recordings to learn from and 4 for development.

    They say the texts in turn; `codes` draws the codes of each, `same` is what each row has.
    """
    said = list(texts)
    folder.mkdir(parents=True)
    for split, count in (("train", train), ("dev", 4)):
        rows = [
            {
                "id": f"{split}{n}",
                "speaker": f"s{n % speakers}",
                "split": split,
                "text": said[n % len(said)],
                "codes": codes(),
                **same,
            }
            for n in range(count)
        ]
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{split}-0000.parquet")
