"""Speak the planned takes and store their WORLD features, shard by shard.

A shard is an .npz file with the float16 frame features of all its (take, speaker) pairs, joined.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from speculative_tts.codecs import world
from speculative_tts.codecs.tiny import FRAMES_PER_TOKEN, SAMPLES_PER_TOKEN
from speculative_tts.files import writing
from speculative_tts_makers.corpora.flite import SpokenPhrase, speak
from speculative_tts_makers.corpora.plan import Take
from speculative_tts_makers.corpora.speakers import TinySpeaker
from speculative_tts_makers.corpora.warp import crop, warp

MARGIN_SECONDS = 0.07
"""Silence kept before the first and after the last word."""

PITCH_JITTER = 0.04
PITCH_RANGE = (0.8, 1.2)


@dataclass(frozen=True)
class Trimmed:
    """An utterance cut to whole tokens, with times in tokens from its start."""

    frames: world.WorldFrames
    start: float
    word_ends: tuple[float, ...]


@dataclass(frozen=True)
class SpokenTake:
    """Features of one take by one speaker; word boundaries in (fractional) tokens."""

    id: str
    speaker: str
    words: tuple[str, ...]
    start: float
    word_ends: tuple[float, ...]
    features: NDArray[np.float16]


def trim(frames: world.WorldFrames, utterance: SpokenPhrase, phase: int) -> Trimmed:
    """Cut silence to about `MARGIN_SECONDS` on both sides, in whole tokens.

    `phase` (0 to 3 frames) moves the cut, so that tokens fall differently on the same speech.
    """
    first = round((utterance.start - MARGIN_SECONDS) / world.FRAME_SECONDS) - phase
    first = max(first, 0)
    speech_end = utterance.word_ends[-1] + MARGIN_SECONDS
    frame_count = speech_end / world.FRAME_SECONDS - first
    tokens = round(frame_count / FRAMES_PER_TOKEN)
    tokens = min(tokens, (len(frames.f0) - first) // FRAMES_PER_TOKEN)
    origin = first * world.FRAME_SECONDS
    rate = world.SAMPLE_RATE / SAMPLES_PER_TOKEN
    return Trimmed(
        crop(frames, first, first + tokens * FRAMES_PER_TOKEN),
        (utterance.start - origin) * rate,
        tuple((end - origin) * rate for end in utterance.word_ends),
    )


def speak_take(take: Take, seed: int) -> Iterator[SpokenTake]:
    """Speak one take and warp it to each of its speakers, with a little variety of pitch."""
    utterance = speak(take.words, take.voice, take.duration_stretch)
    frames = world.analyse(utterance.wave)
    rng = np.random.default_rng([seed, *take.id.encode()])
    for speaker in take.speakers:
        cut = trim(frames, utterance, int(rng.integers(FRAMES_PER_TOKEN)))
        pitch = speaker.pitch_scale * float(rng.uniform(1 - PITCH_JITTER, 1 + PITCH_JITTER))
        spread = float(rng.uniform(*PITCH_RANGE))
        warped = warp(cut.frames, speaker.formant_scale, pitch, spread)
        features = world.frame_features(warped).astype(np.float16)
        yield SpokenTake(take.id, speaker.name, take.words, cut.start, cut.word_ends, features)


def frames_as(
    words: tuple[str, ...], speaker: TinySpeaker, duration_stretch: float
) -> tuple[Trimmed, world.WorldFrames]:
    """Return trimmed frames of Flite's voice, and the warped ones of a speaker's recording."""
    utterance = speak(words, speaker.voice, duration_stretch)
    cut = trim(world.analyse(utterance.wave), utterance, phase=0)
    return cut, warp(cut.frames, speaker.formant_scale, speaker.pitch_scale)


def speak_as(
    words: tuple[str, ...], speaker: TinySpeaker, duration_stretch: float
) -> tuple[Trimmed, world.Wave]:
    """Speak an original recording of a speaker: trimmed frames and unquantised synthesis."""
    cut, warped = frames_as(words, speaker, duration_stretch)
    return cut, world.synthesise(warped)


def write_feature_shard(shard: tuple[list[Take], int, Path]) -> None:
    """Speak takes into a shard; `shard` has the takes, the seed and the path."""
    takes, seed, path = shard
    spoken = [item for take in takes for item in speak_take(take, seed)]
    with writing(path) as file:
        np.savez(
            file,
            id=np.array([item.id for item in spoken]),
            speaker=np.array([item.speaker for item in spoken]),
            text=np.array([" ".join(item.words) for item in spoken]),
            start=np.array([item.start for item in spoken]),
            word_ends=np.array([end for item in spoken for end in item.word_ends]),
            n_frames=np.array([len(item.features) for item in spoken]),
            features=np.concatenate([item.features for item in spoken]),
        )


def read_feature_shard(path: Path) -> list[SpokenTake]:
    """Read a shard that `write_feature_shard` wrote."""
    with np.load(path) as store:
        columns = {name: store[name] for name in store.files}
    words = [tuple(str(text).split()) for text in columns["text"]]
    features = np.split(columns["features"], np.cumsum(columns["n_frames"])[:-1])
    ends = np.split(columns["word_ends"], np.cumsum([len(w) for w in words])[:-1])
    return [
        SpokenTake(
            str(columns["id"][i]),
            str(columns["speaker"][i]),
            words[i],
            float(columns["start"][i]),
            tuple(float(end) for end in ends[i]),
            features[i],
        )
        for i in range(len(words))
    ]


def read_features(shards: list[Path]) -> list[np.ndarray]:
    """Read the features of every take in some shards."""
    return [one.features.astype(np.float64) for path in shards for one in read_feature_shard(path)]
