"""Batches for a target that reads phones: an utterance, mostly after another of its voice.

Utterances of about one length are put together. Everything is a function of the seed and the number
of the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor

from speculative_tts.codecs.tiny import FRAMES_PER_TOKEN
from speculative_tts.models.phones import PhoneLayout
from speculative_tts.shards import shard
from speculative_tts.training.data.pairs import IGNORED

ROUND = 32  # lengths of batches are multiples of it: fewer sizes of memory are asked for


@dataclass(frozen=True)
class PhoneUtterance:
    """One utterance: rows of its text, the phone of each, codes, the phone of each."""

    rows: NDArray[np.int64]
    phone_of_row: NDArray[np.int64]
    codes: NDArray[np.int64]
    phone_of_code: NDArray[np.int64]
    phones: int


@dataclass(frozen=True)
class PhoneBatch:
    """Right-padded sequences; the phone of a row and the phone spoken next, -1 for none."""

    inputs: Int64[Tensor, "batch length"]
    targets: Int64[Tensor, "batch length"]
    phone: Int64[Tensor, "batch length"]
    spoken: Int64[Tensor, "batch length"]

    def to(self, device: torch.device) -> PhoneBatch:
        """Return the batch on `device`."""
        return PhoneBatch(*(part.to(device, non_blocking=True) for part in vars(self).values()))


@dataclass(frozen=True)
class Drawing:
    """Settings of how sequences are drawn."""

    rows: int = 96  # sequences of a batch
    pool: int = 16  # batches that are cut from sequences drawn together and sorted by length
    single_share: float = 0.3  # of sequences without a voice prompt
    longest_prompt: int = 125  # codes
    longest: int = 400  # codes of a sequence
    short_until: float = 0.15  # share of the steps until which longer and longer ones come in
    shortest: int = 45  # codes to begin with


def mean_clock(folder: Path, layout: PhoneLayout) -> tuple[float, ...]:
    """Return how many codes each phone lasts on average; a phone that is never said lasts one."""
    index = {phone: number for number, phone in enumerate(layout.words)}
    total, count = np.zeros(len(index)), np.zeros(len(index))
    for row in _rows(folder, "train"):
        phones = [index[phone] for phone in row["text"].strip("<>").split()]
        lasts = np.diff(np.array([0, *row["phone_ends"]])) / FRAMES_PER_TOKEN
        np.add.at(total, phones, lasts)
        np.add.at(count, phones, 1)
    return tuple(np.round(np.where(count > 0, total / np.maximum(count, 1), 1.0), 3).tolist())


def read_spoken(folder: Path, split: str, layout: PhoneLayout) -> dict[str, list[PhoneUtterance]]:
    """Return the utterances of each voice; ValueError for a folder without."""
    index = {phone: number for number, phone in enumerate(layout.words)}
    voices: dict[str, list[PhoneUtterance]] = {}
    for row in _rows(folder, split):
        phones = [index[phone] for phone in row["text"].strip("<>").split()]
        counts = layout.rows(phones)
        ends = np.array(row["phone_ends"]) / FRAMES_PER_TOKEN
        codes = np.array(row["codes"], dtype=np.int64)
        middles = np.arange(len(codes) + 1) + 0.5  # the last is the end's
        voices.setdefault(row["speaker"], []).append(
            PhoneUtterance(
                np.array(layout.phone_rows(phones)),
                np.repeat(np.arange(len(phones)), counts),
                codes,
                np.minimum(np.searchsorted(ends, middles), len(phones) - 1),
                len(phones),
            )
        )
    return voices


def _rows(folder: Path, split: str) -> Iterator[dict[str, Any]]:
    paths = sorted(folder.glob(f"{split}-*.parquet"))
    if not paths:
        raise ValueError(f"{folder} has no {split}-*.parquet; run sst-prepare corpus=sentences")
    for path in paths:
        with shard(path):
            yield from pq.read_table(
                path, columns=["speaker", "text", "codes", "phone_ends"]
            ).to_pylist()


class PhoneData:
    """Numbered batches of the utterances of some voices."""

    def __init__(
        self,
        voices: dict[str, list[PhoneUtterance]],
        layout: PhoneLayout,
        drawing: Drawing,
        seed: int,
    ) -> None:
        self._voices = [voices[name] for name in sorted(voices)]
        self._lengths = [np.array([len(one.codes) for one in voice]) for voice in self._voices]
        self._layout, self._drawing, self._seed = layout, drawing, seed
        self._pool = lru_cache(maxsize=2)(self._draw_pool)

    def batch(self, number: int, progress: float) -> PhoneBatch:
        """Return batch `number`, drawn when `progress` of the training (0 to 1) is done."""
        drawing = self._drawing
        pool, place = divmod(number, drawing.pool)
        grown = min(1.0, progress / drawing.short_until) if drawing.short_until else 1.0
        # The limit moves in steps, so that one pool has one.
        longest = drawing.shortest + int(8 * grown) * (drawing.longest - drawing.shortest) // 8
        return collate(self._pool(pool, longest)[place], self._layout)

    def _draw_pool(self, pool: int, longest: int) -> list[list[tuple[PhoneUtterance, ...]]]:
        drawing = self._drawing
        rng = np.random.default_rng([self._seed, pool])
        drawn = [self._draw(rng, longest) for _ in range(drawing.rows * drawing.pool)]
        drawn.sort(key=lambda said: sum(len(one.codes) for one in said))
        cut = [drawn[i : i + drawing.rows] for i in range(0, len(drawn), drawing.rows)]
        return [cut[i] for i in rng.permutation(len(cut))]

    def _draw(self, rng: np.random.Generator, longest: int) -> tuple[PhoneUtterance, ...]:
        sizes = np.array([len(voice) for voice in self._voices]) ** 0.75
        voice = int(rng.choice(len(sizes), p=sizes / sizes.sum()))
        said = self._one(rng, voice, longest)
        rest = min(longest - len(said.codes), self._drawing.longest_prompt)
        if rng.random() < self._drawing.single_share or rest < self._drawing.shortest:
            return (said,)
        return self._one(rng, voice, rest), said

    def _one(self, rng: np.random.Generator, voice: int, longest: int) -> PhoneUtterance:
        """Draw an utterance of at most so many codes; the shortest of a few where none is found."""
        tried = rng.integers(len(self._voices[voice]), size=24)
        lengths = self._lengths[voice][tried]
        short = np.flatnonzero(lengths <= longest)
        place = int(short[0] if len(short) else lengths.argmin())
        return self._voices[voice][int(tried[place])]


def collate(sequences: Sequence[tuple[PhoneUtterance, ...]], layout: PhoneLayout) -> PhoneBatch:
    """Return the sequences as one batch, padded on the right."""
    written = [write(said, layout) for said in sequences]
    length = -(-max(len(columns[0]) for columns in written) // ROUND) * ROUND
    out = np.full((4, len(written), length), -1, dtype=np.int64)
    out[0], out[1] = layout.eos_id, IGNORED
    for row, columns in enumerate(written):
        for kind, values in enumerate(columns):
            out[kind, row, : len(values)] = values
    return PhoneBatch(*(torch.from_numpy(part) for part in out))


def write(said: tuple[PhoneUtterance, ...], layout: PhoneLayout) -> tuple[NDArray[np.int64], ...]:
    """Return inputs, targets, phone of each row and phone spoken next, of one sequence."""
    firsts = np.cumsum([0, *(one.phones for one in said)])
    text = sum(len(one.rows) for one in said)
    given = 2 + text + layout.fill(text)
    codes = sum(len(one.codes) for one in said)
    inputs = np.full(given + codes, layout.fill_id)
    inputs[0], inputs[given - 1] = layout.sos_id, layout.task_id
    inputs[1 : 1 + text] = np.concatenate([one.rows for one in said])
    inputs[given:] = np.concatenate([one.codes for one in said])
    targets = np.full_like(inputs, IGNORED)
    targets[given - 1 : -1], targets[-1] = inputs[given:], layout.eos_id
    phone, spoken = np.full_like(inputs, -1), np.full_like(inputs, -1)
    of_rows = [first + one.phone_of_row for first, one in zip(firsts, said, strict=False)]
    phone[1 : 1 + text] = np.concatenate(of_rows)
    # An utterance that another follows has no end: its last entry is dropped.
    of_codes = [first + one.phone_of_code[:-1] for first, one in zip(firsts, said, strict=False)]
    spoken[given - 1 : -1] = np.concatenate(of_codes)
    spoken[-1] = firsts[-1] - 1
    return inputs, targets, phone, spoken
