"""Speak English sentences with Flite; keep WORLD features and exact phone times, shard by shard.

Each voice reads the training sentences in an order of its own, so that voices and sentences can be
added later; a shard is an .npz file of `SHARD` utterances laid end to end. A killed run continues.
"""

from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from speculative_tts.cluster import workers
from speculative_tts.codecs import world
from speculative_tts.codecs.tiny import FRAMES_PER_TOKEN
from speculative_tts.files import writing
from speculative_tts.progress import progress
from speculative_tts.schema.prepare import PrepareConfig
from speculative_tts_makers.corpora.flite import PAUSE, VOICE_GAIN, SpokenText, speak_text

SHARD = 200
BEFORE, AFTER = 0.08, 0.12
"""Seconds of silence kept before the first and after the last phone."""

COMMA = ","
ENDS = (".", "?", "!")

Shard = tuple[list[str], str, Path]  # sentences, voice, file


@dataclass(frozen=True)
class SpokenSentence:
    """A sentence by one voice: phones, the frame (10 ms) at which each ends, and features.

    The pauses of the spoken text are phones too: a comma inside, the sentence's own mark at the
    end; the silence before the first phone belongs to it.
    """

    voice: str
    text: str
    phones: tuple[str, ...]
    ends: tuple[int, ...]
    features: NDArray[np.float16]


def speak_shards(config: PrepareConfig, texts: list[str], out: Path) -> list[Path]:
    """Speak the training sentences, voice after voice; return features/<split>-<voice>-<n>.npz.

    The first shard of each voice is the dev data.
    """
    if unknown := [voice for voice in config.voices if voice not in VOICE_GAIN]:
        raise ValueError(f"voices has {unknown[0]!r}; Flite's are {', '.join(VOICE_GAIN)}")
    (out / "features").mkdir(parents=True, exist_ok=True)
    shards = [shard for voice in config.voices for shard in _shards(texts, voice, config, out)]
    missing = [shard for shard in shards if not shard[2].exists()]
    with workers(config.cluster, config.workers) as many:
        written = many.each(write_shard, missing)
        deque(progress(written, total=len(missing), desc="speaking"), maxlen=0)
    return [path for _, _, path in shards]


def _shards(texts: list[str], voice: str, config: PrepareConfig, out: Path) -> list[Shard]:
    """Return the shards of one voice, whose order of sentences is its own."""
    rng = np.random.default_rng([config.seed, *voice.encode()])
    order = rng.permutation(len(texts))[: config.sentences]
    return [
        (
            [texts[i] for i in order[first : first + SHARD]],
            voice,
            out / "features" / f"{'train' if first else 'dev'}-{voice}-{first // SHARD:04d}.npz",
        )
        for first in range(0, len(order), SHARD)
    ]


def speak_sentence(text: str, voice: str) -> SpokenSentence:
    """Speak one sentence and cut it to whole tokens with little silence at both ends."""
    spoken = speak_text(text, voice)
    phones, ends, start, stop = mark_pauses(spoken, text)
    features = world.frame_features(world.analyse(spoken.wave))
    first = round(start / world.FRAME_SECONDS)
    count = min(len(features), round(stop / world.FRAME_SECONDS)) - first
    count = count // FRAMES_PER_TOKEN * FRAMES_PER_TOKEN
    frames = np.minimum(np.round(np.array(ends) / world.FRAME_SECONDS).astype(int) - first, count)
    cut = features[first : first + count].astype(np.float16)
    return SpokenSentence(voice, text, phones, tuple(int(end) for end in frames), cut)


def mark_pauses(
    spoken: SpokenText, text: str
) -> tuple[tuple[str, ...], tuple[float, ...], float, float]:
    """Return phones with pauses as marks, their ends, and the seconds to keep from and to.

    The last phone is the sentence's mark, which lasts `AFTER` at most.
    """
    voiced = [i for i, phone in enumerate(spoken.phones) if phone != PAUSE]
    if not voiced:
        raise ValueError(f"nothing is spoken of {text!r}")
    begin, last = voiced[0], voiced[-1]
    start = spoken.ends[begin - 1] - BEFORE if begin else 0.0
    stop = spoken.ends[last] + AFTER
    inside = spoken.phones[begin : last + 1]
    phones = (*(COMMA if phone == PAUSE else phone for phone in inside), end_mark(text))
    return phones, (*spoken.ends[begin : last + 1], stop), max(0.0, start), stop


def end_mark(text: str) -> str:
    """Return the mark that ends the text; a full stop unless it asks or exclaims."""
    return text[-1] if text[-1] in ENDS else ENDS[0]


def write_shard(shard: Shard) -> None:
    """Speak the sentences of one shard into its file, atomically."""
    texts, voice, path = shard
    spoken = [speak_sentence(text, voice) for text in texts]
    with writing(path) as file:
        np.savez(
            file,
            voice=np.array(voice),
            text=np.array([one.text for one in spoken]),
            phones=np.array([" ".join(one.phones) for one in spoken]),
            ends=np.concatenate([one.ends for one in spoken]).astype(np.int32),
            n_frames=np.array([len(one.features) for one in spoken]),
            features=np.concatenate([one.features for one in spoken]),
        )


def read_shard(path: Path) -> list[SpokenSentence]:
    """Return the contents of a shard that `write_shard` wrote."""
    with np.load(path) as store:
        columns = {name: store[name] for name in store.files}
    phones = [tuple(str(line).split()) for line in columns["phones"]]
    ends = np.split(columns["ends"], np.cumsum([len(one) for one in phones])[:-1])
    features = np.split(columns["features"], np.cumsum(columns["n_frames"])[:-1])
    voice = str(columns["voice"])
    return [
        SpokenSentence(voice, str(text), phones[i], tuple(map(int, ends[i])), features[i])
        for i, text in enumerate(columns["text"])
    ]
