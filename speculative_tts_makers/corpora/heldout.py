"""Encode the development list, on which drafts are selected: its strings are in no training."""

from pathlib import Path

import pyarrow as pa

from speculative_tts.codecs.tiny import WorldCodec
from speculative_tts.corpora.codes import code_columns, write_shard
from speculative_tts.progress import progress
from speculative_tts_makers.corpora.features import speak_as
from speculative_tts_makers.corpora.plan import ListedUtterance, VoicePrompt


def write_dev_codes(
    prompts: list[VoicePrompt],
    rows: list[ListedUtterance],
    codec: WorldCodec,
    path: Path,
    schema: pa.Schema,
) -> None:
    """Speak and encode an evaluation list's prompts and references into one Parquet shard."""
    if path.exists():
        return
    spoken = [heldout_row(item, codec) for item in progress([*prompts, *rows], desc="dev codes")]
    write_shard(spoken, schema, path)


def heldout_row(item: VoicePrompt | ListedUtterance, codec: WorldCodec) -> dict[str, object]:
    """Return one row of the codes store, of split dev; boundaries are rounded to tokens."""
    cut, wave = speak_as(item.words, item.speaker, item.duration_stretch)
    return {
        "id": item.id,
        "speaker": item.speaker.name,
        "split": "dev",
        "text": " ".join(item.words),
        **code_columns(codec.encode(wave), cut.start, cut.word_ends, codec.token_rate),
    }
