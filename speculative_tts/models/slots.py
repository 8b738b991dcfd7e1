"""Frames of codes: which ids each position of a frame may hold.

A codec with several codebooks writes a frame of codes in a row, each position from a range of ids
of its own (Orpheus: seven ranges of 4,096). Ids after all codes end the speech.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from speculative_tts.models.host import readable


@dataclass(frozen=True)
class Slots:
    """Hold the sizes of a frame's ranges of ids, a range a position, one after the other."""

    sizes: tuple[int, ...]
    end_in_frame: bool = False  # speech may end within a frame, not only after a whole one

    @property
    def ends(self) -> tuple[int, ...]:
        """Return the first id after each range."""
        return tuple(accumulate(self.sizes))

    @property
    def ranges(self) -> tuple[range, ...]:
        """Return the ids of each position of a frame."""
        return tuple(
            range(end - size, end) for end, size in zip(self.ends, self.sizes, strict=True)
        )

    def barred(
        self, positions: Int64[Tensor, "batch new"], vocab: int
    ) -> Bool[Tensor, "batch new vocab"]:
        """Return the ids that cannot stand at output positions; a frame begins at position 0."""
        owner = (_cached_owner if readable(positions) else _owner)(self, vocab, positions.device)
        slot = (positions % len(self.sizes))[..., None]
        other = (owner != slot) & (owner < len(self.sizes))
        if self.end_in_frame:
            return other
        return other | ((owner == len(self.sizes)) & (slot > 0))

    def check_whole(self, codes: int) -> None:
        """Raise ValueError for a number of codes that ends within a frame."""
        if codes % len(self.sizes):
            raise ValueError(
                f"the voice prompt has {codes} codes, which is no whole number of frames of "
                f"{len(self.sizes)}; encode it with the target's codec"
            )

    def check_frames(self, codes: Sequence[int]) -> None:
        """Raise ValueError for codes to learn from that are not whole frames, each in its range."""
        ranges = self.ranges
        for place, code in enumerate(codes):
            within = ranges[place % len(ranges)]
            if code not in within:
                raise ValueError(
                    f"an utterance's code {place} to learn from is {code}; position "
                    f"{place % len(ranges)} of a frame holds {within[0]} to {within[-1]}: write "
                    "the frames one after the other, as the target's own codec does"
                )
        if len(codes) % len(ranges):
            raise ValueError(
                f"an utterance to learn from has {len(codes)} codes, which is no whole number of "
                f"frames of {len(ranges)}; make the codes with the target's own codec"
            )


def slots_of(layout: object) -> Slots | None:
    """Return the frames of a layout's codes; None where every position may hold any code."""
    return getattr(layout, "slots", None)


def _owner(slots: Slots, vocab: int, device: torch.device) -> Int64[Tensor, " vocab"]:
    """Return the position in a frame that each id belongs to; their number for ids after codes."""
    with torch.inference_mode(False):  # a cached one may be used in training
        ids = torch.arange(vocab, device=device)
        owner = torch.zeros_like(ids)
        for end in slots.ends:
            owner += ids >= end
        return owner


_cached_owner = cache(_owner)  # a graph's tensors are its own
