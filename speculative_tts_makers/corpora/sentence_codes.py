"""Make all that a sentence target is trained on: features, codec, Parquet shards of codes, lists.

A row of a shard has codes, phones and when each ends. `text` is the phones between < and >, as a
target that reads phones takes them; `words` is what was to be said.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from speculative_tts.codecs.tiny import FRAMES_PER_TOKEN, TinyCodec
from speculative_tts.corpora.codes import write_shard
from speculative_tts.progress import progress
from speculative_tts.schema.prepare import PrepareConfig
from speculative_tts_makers.corpora.codec_training import train_codec
from speculative_tts_makers.corpora.postnet import with_postnet
from speculative_tts_makers.corpora.sentence_lists import write_sentence_lists
from speculative_tts_makers.corpora.sentences import SHARD, SpokenSentence, read_shard, speak_shards
from speculative_tts_makers.corpora.texts import held_out, sentences

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


CODEC_SHARDS = 7  # of each voice, that the codec is trained on; 1.4 hours
ITERATIONS = 8  # of k-means


def prepare_sentences(config: PrepareConfig, out: Path) -> None:
    """Speak the sentences of `config.texts`, train the codec, write codes, test and dev list.

    The lists are of the first of the texts alone.
    """
    texts = [text for text in sentences(map(Path, config.texts)) if not held_out(text)]
    shards = speak_shards(config, texts, out)
    codec = sentence_codec(config, shards, out / "codec")
    write_sentence_codes(shards, codec, out / "codes")
    lists = write_sentence_lists(
        sentences([Path(config.texts[0])]), config.voices, config.seed, out
    )
    print(f"{out / 'codes'}: {len(shards)} shards of {SHARD} sentences; {lists[0]}, {lists[1]}")


def sentence_codec(config: PrepareConfig, shards: list[Path], folder: Path) -> TinyCodec:
    """Train the codec on the first shards of each voice, unless `folder` has one."""
    if not (folder / "codec.json").exists():
        of_voice = -(-len(shards) // len(config.voices))
        chosen = [path for n, path in enumerate(shards) if n % of_voice < CODEC_SHARDS]
        spoken = [one.features.astype(np.float64) for path in chosen for one in read_shard(path)]
        codec = train_codec(spoken, config.n_fine_codes, ITERATIONS, config.seed)
        with_postnet(codec, spoken, config.postnet_steps, config.seed).save(folder)
    return TinyCodec.load(folder)


def write_sentence_codes(shards: list[Path], codec: TinyCodec, folder: Path) -> None:
    """Encode each feature shard into a Parquet shard of its name; those there are kept.

    Each sentence is encoded from its first frame on, from the second, ...: codes fall
    otherwise on the same speech, so that as many different utterances are learnt from.
    """
    for path in progress(shards, desc=f"encoding into {folder.name}"):
        out = folder / f"{path.stem}.parquet"
        if not out.exists():
            spoken = read_shard(path)
            rows = [
                sentence_row(one, codec, f"{path.stem}-{number:03d}", phase)
                for phase in range(FRAMES_PER_CODE)
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
