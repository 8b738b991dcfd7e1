"""Batch utterances of about one length, so that little of a batch is padding.

This follows lhotse's bucketing sampler of the public VALL-E recipe: the bound is on codes per
batch, padding included, not on utterances.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Batch = TypeVar("Batch")
STEP = 25  # codes: utterances of one bucket differ by less than this


class Buckets:
    """Numbered batches (0, 1, ... endless) of at most `frames` codes, padding included.

    Each utterance comes once an epoch. Lengths are rounded up to whole buckets, so batches have the
    same sizes in every epoch; their members and their order are drawn anew. Utterances that are
    not between `shortest` and `longest`, or fit no batch, are left out.
    """

    def __init__(
        self,
        lengths: NDArray[np.int64],
        *,
        frames: int,
        shortest: int = 1,
        longest: int | None = None,
        seed: int = 0,
    ) -> None:
        most = frames if longest is None else min(frames, longest)
        self._members = np.flatnonzero((shortest <= lengths) & (lengths <= most))
        self.left_out = len(lengths) - len(self._members)
        if not len(self._members):
            raise ValueError(
                f"none of {len(lengths)} utterances has {shortest} to {most} codes; "
                "raise joint.frames or joint.longest, or lower joint.shortest"
            )
        self._seed, self._buckets = seed, -(-lengths[self._members] // STEP)
        self._starts = _starts(np.sort(self._buckets) * STEP, frames)
        self._epoch = lru_cache(maxsize=2)(self._draw_epoch)

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return len(self._starts)

    def __getitem__(self, number: int) -> list[int]:
        """Return the utterances of batch `number`, a function of (lengths, seed, number)."""
        epoch, place = divmod(number, len(self))
        members: list[int] = self._epoch(epoch)[place].tolist()
        return members

    def _draw_epoch(self, epoch: int) -> list[NDArray[np.int64]]:
        rng = np.random.default_rng([self._seed, epoch])
        order = np.lexsort((rng.random(len(self._members)), self._buckets))
        batches = np.split(self._members[order], self._starts[1:])
        return [batches[place] for place in rng.permutation(len(batches))]


def _starts(lengths: NDArray[np.int64], frames: int) -> list[int]:
    """Return the index at which each batch begins, among utterances sorted by length."""
    starts = [0]
    for index, length in enumerate(lengths.tolist()):
        if index > starts[-1] and (index + 1 - starts[-1]) * length > frames:
            starts.append(index)
    return starts


class Batches(Generic[Batch]):
    """Batches of a split: `make` applied to the utterances that `Buckets` puts together."""

    def __init__(self, buckets: Buckets, make: Callable[[list[int]], Batch]) -> None:
        self.buckets, self._make = buckets, make

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return len(self.buckets)

    def __getitem__(self, number: int) -> Batch:
        """Return batch `number`."""
        return self._make(self.buckets[number])
