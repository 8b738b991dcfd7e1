"""What the tiny corpus says: which words, by which voice, warped to which speakers.

Everything here is a pure function of the seed.  Strings of three or more words are each either
reserved (development and test, prompts and texts) or free for training, never both; shorter strings
are too few for that and belong to training only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from speculative_tts.corpora.flite import VOICE_GAIN, WORDS
from speculative_tts.corpora.speakers import SPEAKERS, Speaker, speakers_of

Words = tuple[str, ...]

LENGTH_WEIGHTS = {1: 9, 2: 11, 3: 12, 4: 13, 5: 14, 6: 14, 7: 13, 8: 14}
"""How often a training utterance has so many words."""

REPEATS_SHARE = 0.15
"""Share of strings whose words are drawn with replacement; the others repeat no word."""

STRETCH_RANGE = (0.80, 1.10)
MIN_RESERVED_WORDS = 3


@dataclass(frozen=True)
class Take:
    """One Flite utterance of the training corpus, warped to `speakers`."""

    id: str
    voice: str
    words: Words
    duration_stretch: float
    speakers: tuple[Speaker, ...]


@dataclass(frozen=True)
class ListedUtterance:
    """One row of the development or test list before it is spoken."""

    id: str
    speaker: Speaker
    words: Words
    prompt_id: str
    duration_stretch: float


@dataclass(frozen=True)
class VoicePrompt:
    """A voice prompt of the development or test list before it is spoken."""

    id: str
    speaker: Speaker
    words: Words
    duration_stretch: float


def draw_words(rng: np.random.Generator, n_words: int) -> Words:
    """A random string of `n_words` words, mostly without repeats."""
    replace = bool(rng.random() < REPEATS_SHARE)
    return tuple(str(word) for word in rng.choice(WORDS, size=n_words, replace=replace))


def draw_stretch(rng: np.random.Generator) -> float:
    """A random speaking rate; above 1 is slower."""
    return float(rng.uniform(*STRETCH_RANGE))


def plan_list(
    name: str, rows_per_speaker: int, seed: int, taken: set[Words]
) -> tuple[list[VoicePrompt], list[ListedUtterance]]:
    """Prompts (one a speaker) and rows of an evaluation list; adds its strings to `taken`."""
    rng = np.random.default_rng([seed, *name.encode()])
    prompts, rows = [], []
    for speaker in SPEAKERS:
        words = _draw_untaken(rng, (5, 7), taken)
        prompt = VoicePrompt(f"{name}-{speaker.name}-prompt", speaker, words, draw_stretch(rng))
        prompts.append(prompt)
        for index in range(rows_per_speaker):
            words = _draw_untaken(rng, (MIN_RESERVED_WORDS, 9), taken)
            row_id = f"{name}-{speaker.name}-{index}"
            rows.append(ListedUtterance(row_id, speaker, words, prompt.id, draw_stretch(rng)))
    return prompts, rows


def plan_takes(
    n_takes: int, warps_per_take: tuple[int, int], seed: int, reserved: set[Words]
) -> list[Take]:
    """The training takes, voices in turn; `warps_per_take` bounds (both inclusive)."""
    voices = tuple(VOICE_GAIN)
    return [
        _plan_take(index, voices[index % len(voices)], warps_per_take, seed, reserved)
        for index in range(n_takes)
    ]


def _plan_take(
    index: int, voice: str, warps_per_take: tuple[int, int], seed: int, reserved: set[Words]
) -> Take:
    rng = np.random.default_rng([seed, index])
    lengths = list(LENGTH_WEIGHTS)
    weights = np.array(list(LENGTH_WEIGHTS.values()), dtype=float)
    n_words = int(rng.choice(lengths, p=weights / weights.sum()))
    words = draw_words(rng, n_words)
    while words in reserved:
        words = draw_words(rng, n_words)
    candidates = speakers_of(voice, seen=True)
    n_warps = int(rng.integers(warps_per_take[0], warps_per_take[1] + 1))
    chosen = rng.permutation(len(candidates))[:n_warps]
    speakers = tuple(candidates[i] for i in chosen)
    return Take(f"take-{index:05d}", voice, words, draw_stretch(rng), speakers)


def _draw_untaken(rng: np.random.Generator, n_words: tuple[int, int], taken: set[Words]) -> Words:
    """A string not in `taken`, which it then joins; `n_words` as (least, one past the most)."""
    while True:
        words = draw_words(rng, int(rng.integers(*n_words)))
        if words not in taken:
            taken.add(words)
            return words
