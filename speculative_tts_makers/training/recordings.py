"""Draw batches for the tiny target: two takes of one speaker, joined as at inference.

Their length grows with the step; the random generator handed in decides the rest.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor

from speculative_tts.models.layout import SpeechLayout
from speculative_tts.shards import shard
from speculative_tts.training.data.pairs import IGNORED


@dataclass(frozen=True)
class Stage:
    """Until `until_step`, utterances have at most `max_words` words."""

    until_step: int
    max_words: int


FLUENT = (Stage(1 << 30, 8),)
"""Stages for a target that speaks already: all lengths from the first step."""


@dataclass(frozen=True)
class BatchConfig:
    """Settings of how sequences are drawn and batched."""

    tokens: int = 2000
    """Approximate number of positions in a batch, padding included."""
    single_share: float = 0.2
    """Share of sequences that are one utterance without a prompt."""
    pool: int = 6
    """Candidates drawn for each sequence kept; more means less padding."""
    stages: tuple[Stage, ...] = (Stage(120, 1), Stage(250, 3), Stage(450, 5), *FLUENT)


@dataclass(frozen=True)
class Recording:
    """One utterance: word indices, codes, and the positions of its words (in tokens).

    `residual_codes` [layers - 1, tokens] has all layers but the first, of a codec with several.
    """

    words: NDArray[np.int64]
    codes: NDArray[np.int64]
    speech_start: int
    word_ends: NDArray[np.int64]
    residual_codes: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class RecordingsBySpeaker:
    """All recordings, by speaker and number of words."""

    by_speaker: tuple[dict[int, tuple[Recording, ...]], ...]

    @property
    def trained_words(self) -> tuple[int, int]:
        """Fewest and most words of what a fluent target is trained on."""
        longest = FLUENT[-1].max_words
        lengths = [n for one in self.by_speaker for n in one if n <= longest]
        return min(lengths, default=longest), max(lengths, default=longest)


@dataclass(frozen=True)
class LabelledBatch:
    """Right-padded sequences with word labels; `targets` are the `inputs` one step later."""

    inputs: Int64[Tensor, "rows length"]
    targets: Int64[Tensor, "rows length"]
    current_word: Int64[Tensor, "rows length"]
    next_word: Int64[Tensor, "rows length"]


def load_recordings(folder: Path, layout: SpeechLayout, first: int = 0) -> RecordingsBySpeaker:
    """Read the shards `folder/train-*.parquet` from `first` on."""
    index = {word: i for i, word in enumerate(layout.words)}
    speakers: dict[str, dict[int, list[Recording]]] = {}
    paths = sorted(folder.glob("train-*.parquet"))
    if not paths[first:]:
        raise ValueError(
            f"{folder} has {len(paths)} shards train-*.parquet, and first_shard is {first}; run "
            "sst-prepare with more takes, or give fewer"
        )
    for path in paths[first:]:
        with shard(path):
            rows = pq.read_table(path).to_pylist()
            words_of = [np.array([index[word] for word in row["text"].split()]) for row in rows]
        for row, words in zip(rows, words_of, strict=True):
            residual = row.get("residual_codes")
            recording = Recording(
                words,
                np.array(row["codes"]),
                row["speech_start"],
                np.array(row["word_ends"]),
                None if residual is None else np.array(residual),
            )
            lengths = speakers.setdefault(row["speaker"], {})
            lengths.setdefault(len(words), []).append(recording)
    return RecordingsBySpeaker(
        tuple(
            {n: tuple(group) for n, group in sorted(speakers[name].items())}
            for name in sorted(speakers)
        )
    )


def draw_sequences(
    rng: np.random.Generator, data: RecordingsBySpeaker, config: BatchConfig, step: int
) -> list[tuple[Recording, ...]]:
    """Draw the sequences of a batch of step `step`: one or two recordings of a speaker each."""
    max_words = next(s.max_words for s in config.stages if step < s.until_step)
    rough = config.tokens // (2 * 8 * max_words)
    pool = [_draw_sequence(rng, data, config, max_words) for _ in range(config.pool * rough)]
    pool.sort(key=_sequence_length)
    first = int(rng.integers(0, len(pool)))
    return _fill(pool, first, config.tokens)


def _fill(
    pool: list[tuple[Recording, ...]], first: int, tokens: int
) -> list[tuple[Recording, ...]]:
    """Return neighbours in length around `first` whose padded size stays within `tokens`."""
    low = high = first
    while True:
        grow_up = high + 1 < len(pool) and (high - first <= first - low or low == 0)
        next_low, next_high = (low, high + 1) if grow_up else (low - 1, high)
        if next_low < 0 or (next_high - next_low + 1) * _sequence_length(pool[next_high]) > tokens:
            return pool[low : high + 1]
        low, high = next_low, next_high


def _draw_sequence(
    rng: np.random.Generator, data: RecordingsBySpeaker, config: BatchConfig, max_words: int
) -> tuple[Recording, ...]:
    by_length = data.by_speaker[int(rng.integers(len(data.by_speaker)))]
    count = 1 if rng.random() < config.single_share else 2
    return tuple(_draw_recording(rng, by_length, max_words) for _ in range(count))


def _draw_recording(
    rng: np.random.Generator, by_length: dict[int, tuple[Recording, ...]], max_words: int
) -> Recording:
    lengths = [n for n in by_length if n <= max_words] or [min(by_length)]
    counts = np.array([len(by_length[n]) for n in lengths], dtype=float)
    group = by_length[int(rng.choice(lengths, p=counts / counts.sum()))]
    return group[int(rng.integers(len(group)))]


def _sequence_length(recordings: tuple[Recording, ...]) -> int:
    return 2 + sum(len(r.words) + len(r.codes) for r in recordings)


def collate(sequences: list[tuple[Recording, ...]], layout: SpeechLayout) -> LabelledBatch:
    """Pad sequences of one or two recordings each on the right."""
    length = max(_sequence_length(sequence) for sequence in sequences)
    columns = np.full((4, len(sequences), length), IGNORED, dtype=np.int64)
    columns[0] = layout.eos_id
    for row, sequence in enumerate(sequences):
        for column, values in enumerate(sequence_arrays(sequence, layout)):
            columns[column, row, : len(values)] = values
    return LabelledBatch(*(torch.from_numpy(column) for column in columns))


def sequence_arrays(
    sequence: tuple[Recording, ...], layout: SpeechLayout
) -> tuple[NDArray[np.int64], ...]:
    """Return inputs, targets, the word spoken at the target and the word after it.

    Word classes are word indices; the class after the last is silence (for the word spoken) and the
    end of the text (for the next word).
    """
    words = np.concatenate([r.words for r in sequence])
    codes = np.concatenate([r.codes for r in sequence])
    text = [layout.sos_id, *(words + layout.text_offset), layout.task_id]
    inputs = np.concatenate([text, codes])
    targets = np.full_like(inputs, IGNORED)
    targets[len(text) - 1 : -1] = codes
    targets[-1] = layout.eos_id
    current = np.full_like(inputs, IGNORED)
    following = np.full_like(inputs, IGNORED)
    current[len(text) - 1 :], following[len(text) - 1 :] = word_labels(sequence, len(layout.words))
    return inputs, targets, current, following


def word_labels(
    sequence: tuple[Recording, ...], none: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Label every speech token and the end with the word spoken and the next word, or `none`."""
    words = np.concatenate([r.words for r in sequence])
    padded = np.append(words, none)
    current, following, spoken = [], [], 0
    for recording in sequence:
        position = np.arange(len(recording.codes))
        word = np.searchsorted(recording.word_ends, position, side="right")
        silent = (position < recording.speech_start) | (word == len(recording.words))
        current.append(np.where(silent, none, padded[spoken + word]))
        following.append(padded[np.minimum(spoken + word + ~silent, len(words))])
        spoken += len(recording.words)
    current.append(np.array([none]))
    following.append(np.array([none]))
    return np.concatenate(current), np.concatenate(following)
