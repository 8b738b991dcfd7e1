"""Codes of the development list: what drafts are selected on, with strings no training saw."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from speculative_tts.codecs.tiny import TinyCodec
from speculative_tts.corpora.features import speak_as
from speculative_tts.corpora.plan import ListedUtterance, Prompt


def write_dev_codes(
    prompts: list[Prompt],
    rows: list[ListedUtterance],
    codec: TinyCodec,
    path: Path,
    schema: pa.Schema,
) -> None:
    """Speak and encode an evaluation list's prompts and references into one Parquet shard."""
    if path.exists():
        return
    spoken = [heldout_row(item, codec) for item in tqdm([*prompts, *rows], desc="dev codes")]
    temporary = path.with_suffix(".tmp")
    pq.write_table(pa.Table.from_pylist(spoken, schema=schema), temporary)
    os.replace(temporary, path)


def heldout_row(item: Prompt | ListedUtterance, codec: TinyCodec) -> dict[str, object]:
    """One row of the codes store, of split dev; boundaries rounded to tokens."""
    cut, wave = speak_as(item.words, item.speaker, item.duration_stretch)
    codes = codec.encode(wave)
    return {
        "id": item.id,
        "speaker": item.speaker.name,
        "split": "dev",
        "text": " ".join(item.words),
        "codes": codes.tolist(),
        "speech_start": round(cut.start),
        "word_ends": [min(round(end), len(codes)) for end in cut.word_ends],
        "seconds": len(codes) / codec.token_rate,
    }
