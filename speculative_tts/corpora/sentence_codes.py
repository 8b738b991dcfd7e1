"""Encode the features of spoken sentences into Parquet shards: codes, phones and when each ends.

`text` is the phones between < and >, as a target that reads phones takes them; `words` is what was
to be said.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from speculative_tts.codecs.tiny import FRAMES_PER_TOKEN, TinyCodec
from speculative_tts.corpora.codes import write_shard
from speculative_tts.corpora.sentences import SpokenSentence, read_shard
from speculative_tts.progress import progress

FRAMES_PER_CODE = FRAMES_PER_TOKEN
SENTENCE_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("speaker", pa.string()),
        ("split", pa.string()),
        ("text", pa.string()),
        ("words", pa.string()),
        ("codes", pa.list_(pa.int16())),
        ("phone_ends", pa.list_(pa.int16())),
        ("seconds", pa.float32()),
    ]
)


def write_sentence_codes(
    shards: list[Path], codec: TinyCodec, folder: Path, phases: int = FRAMES_PER_CODE
) -> None:
    """Encode each feature shard into a Parquet shard of its name; those there are kept.

    Each sentence is encoded from its first frame on, from the second, ... by `phases`: codes fall
    otherwise on the same speech, so that as many different utterances are learnt from.
    """
    for path in progress(shards, desc=f"encoding into {folder.name}"):
        out = folder / f"{path.stem}.parquet"
        if not out.exists():
            spoken = read_shard(path)
            rows = [
                sentence_row(one, codec, f"{path.stem}-{number:03d}", phase)
                for phase in range(phases)
                for number, one in enumerate(spoken)
            ]
            write_shard(rows, SENTENCE_SCHEMA, out)


def sentence_row(
    said: SpokenSentence, codec: TinyCodec, name: str, phase: int
) -> dict[str, object]:
    """Return the row of one sentence from frame `phase` on; ends are in frames of 10 ms."""
    codes = codec.encode_features(said.features[phase:].astype(np.float64))
    return {
        "id": f"{name}-{phase}",
        "speaker": said.voice,
        "split": name.partition("-")[0],
        "text": f"<{' '.join(said.phones)}>",
        "words": said.text,
        "codes": codes.tolist(),
        "phone_ends": [max(0, end - phase) for end in said.ends],
        "seconds": len(codes) / codec.token_rate,
    }
