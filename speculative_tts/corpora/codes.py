"""Write the stores of speech codes: Parquet shards with one row per utterance.

`codes` are the tokens that a target predicts: the first layer of a codec with several, whose other
layers are in `residual_codes`.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from speculative_tts.files import writing


def codes_schema(code: pa.DataType, *, layered: bool) -> pa.Schema:
    """Return the columns of a store, further layers among them if it is `layered`."""
    names = {"id": pa.string(), "speaker": pa.string(), "split": pa.string(), "text": pa.string()}
    codes = {"codes": pa.list_(code), "speech_start": pa.int32(), "word_ends": pa.list_(pa.int32())}
    layers = {"residual_codes": pa.list_(pa.list_(code))} if layered else {}
    return pa.schema(names | codes | {"seconds": pa.float32()} | layers)


def write_shard(rows: list[dict[str, object]], schema: pa.Schema, path: Path) -> None:
    """Write one Parquet file atomically; columns that the schema lacks are left out."""
    with writing(path) as file:
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), file)


def code_columns(
    codes: np.ndarray, start: float, word_ends: Sequence[float], token_rate: float
) -> dict[str, object]:
    """Return the columns of codes [tokens] or [layers, tokens]; times are rounded to tokens."""
    first, *residual = np.atleast_2d(codes)
    return {
        "codes": first.tolist(),
        "speech_start": round(start),
        "word_ends": [min(round(end), len(first)) for end in word_ends],
        "seconds": len(first) / token_rate,
        "residual_codes": [layer.tolist() for layer in residual],
    }
