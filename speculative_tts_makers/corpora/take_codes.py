"""Encode takes: the stores of codes that the tiny targets learn from."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from speculative_tts.codecs.tiny import WorldCodec
from speculative_tts.corpora.codes import code_columns, codes_schema, write_shard
from speculative_tts.progress import progress
from speculative_tts_makers.corpora.features import SpokenTake, read_feature_shard

CODES_SCHEMA = codes_schema(pa.int16(), layered=False)
RESIDUAL_SCHEMA = codes_schema(pa.int16(), layered=True)


def write_codes(shards: list[Path], codec: WorldCodec, folder: Path, schema: pa.Schema) -> None:
    """Encode each feature shard into a Parquet shard of the same number, unless it exists."""
    for shard in progress(shards, desc=f"encoding into {folder.name}"):
        path = folder / f"train-{shard.stem.removeprefix('shard-')}.parquet"
        if not path.exists():
            rows = [take_row(item, codec) for item in read_feature_shard(shard)]
            write_shard(rows, schema, path)


def take_row(item: SpokenTake, codec: WorldCodec) -> dict[str, object]:
    """Return the row of a training take."""
    codes = codec.encode_features(item.features.astype(np.float64))
    return {
        "id": f"{item.id}-{item.speaker}",
        "speaker": item.speaker,
        "split": "train",
        "text": " ".join(item.words),
        **code_columns(codes, item.start, item.word_ends, codec.token_rate),
    }
