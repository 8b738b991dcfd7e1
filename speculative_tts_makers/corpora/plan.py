"""Plan the tiny corpus: the words, voices and speakers of every utterance.

All functions depend on the seed alone. A string of three or more words is either reserved
(development and test, prompts and texts) or free for training, never both; shorter strings are too
few for that and belong to training only.
"""

from dataclasses import dataclass

import numpy as np

from speculative_tts_makers.corpora.flite import VOICE_GAIN, WORDS
from speculative_tts_makers.corpora.speakers import SPEAKERS, TinySpeaker, speakers_of

Words = tuple[str, ...]

LENGTH_WEIGHTS = {1: 9, 2: 11, 3: 12, 4: 13, 5: 14, 6: 14, 7: 13, 8: 14}
"""Relative frequency of training utterances by their number of words."""

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
    speakers: tuple[TinySpeaker, ...]


@dataclass(frozen=True)
class ListedUtterance:
    """A planned row of the development or test list."""

    id: str
    speaker: TinySpeaker
    words: Words
    prompt_id: str
    duration_stretch: float


@dataclass(frozen=True)
class VoicePrompt:
    """A planned voice prompt of the development or test list."""

    id: str
    speaker: TinySpeaker
    words: Words
    duration_stretch: float


def draw_words(rng: np.random.Generator, n_words: int) -> Words:
    """Draw a string of `n_words` words, mostly without repeats."""
    replace = bool(rng.random() < REPEATS_SHARE)
    return tuple(str(word) for word in rng.choice(WORDS, size=n_words, replace=replace))


def draw_stretch(rng: np.random.Generator) -> float:
    """Draw a duration stretch; above 1 is slower speech."""
    return float(rng.uniform(*STRETCH_RANGE))


def plan_list(
    name: str, rows_per_speaker: int, seed: int, taken: set[Words]
) -> tuple[list[VoicePrompt], list[ListedUtterance]]:
    """Plan an evaluation list's prompts (one per speaker) and rows; add its strings to `taken`."""
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
    """Plan the training takes, voices in turn; `warps_per_take` has inclusive bounds."""
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
    """Draw a string not in `taken`, and add it; `n_words` is (least, one past the most)."""
    while True:
        words = draw_words(rng, int(rng.integers(*n_words)))
        if words not in taken:
            taken.add(words)
            return words
