"""The interface of drafters: they propose tokens and return the distribution of each.

So every rule verifies every drafter, and an exact rule stays exact whatever the drafter. What a
token is may depend on the uniforms of its own and earlier positions only: they are used again where
a draft was thrown away (see `decoding.sampling.randomness`).
"""

from abc import ABC, abstractmethod
from typing import Any, Protocol, Self

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from speculative_tts.decoding.batch import BatchState, Request, Size
from speculative_tts.decoding.gpu import draws
from speculative_tts.decoding.gpu.launch import runs
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.host import readable
from speculative_tts.models.speech_lm import HiddenModel
from speculative_tts.native.walk import NativeDrafter

PerRow = Int64[Tensor, " batch"]
States = Float[Tensor, "batch fed dim"]
Laws = Float[Tensor, "batch drafted vocab"]


class Drafter(Protocol):
    """Drafts for any number of batches, which know nothing of each other."""

    @property
    def reach(self) -> int | None:
        """The largest lookahead it can serve; None: any."""

    def start(self, size: Size) -> "Drafting":
        """Return the state that batches of a size need."""


class Drafting(Protocol):
    """Drafts of one batch at a time; what it remembers lies in here, in tensors that stay."""

    def load(self, requests: list[Request]) -> None:
        """Begin a batch."""

    def row(self, index: int) -> Self:
        """Return one row as drafts of its own in the same tensors, once a batch is loaded."""

    def propose(self, rows: BatchState, sampler: Sampler, lookahead: int) -> tuple[PerRow, Laws]:
        """Write up to `lookahead` tokens after those of `rows`, provisionally.

        Returns how many count in each row (none after a stop id, none that would leave no room for
        the token after them: `room`, `up_to_stop`), and their distributions; drafted <= lookahead.
        """

    def native(self, sampler: Sampler, lookahead: int) -> NativeDrafter | None:
        """Return the drafter for native rounds of a loaded batch; None where Python drafts."""

    def observe(self, hidden: States, accepted: PerRow) -> None:
        """Update after a verification; hidden: the target's states after each token it was fed.

        It was fed the newest token and the drafted ones, of which `accepted` stay: the token that
        follows them was drawn from the state at `accepted`. The first one comes with the prompt's
        last state and 0.
        """


class CacheReader(ABC):
    """A `Drafter` that reads what the target's cache keeps; it brings the target that keeps it."""

    verifier: HiddenModel  # the target, as it must be run

    @property
    @abstractmethod
    def reach(self) -> int | None:
        """See `Drafter`."""

    @abstractmethod
    def start_with(self, size: Size, cache: Any) -> Drafting:
        """Return the state that batches of a size need, beside the target's cache of them."""


def started(drafter: Drafter | CacheReader, size: Size, cache: Any) -> Drafting:
    """Return a drafter's state for batches whose target has this cache."""
    if isinstance(drafter, CacheReader):
        return drafter.start_with(size, cache)
    return drafter.start(size)


def picked(x: Tensor, index: PerRow) -> Float[Tensor, "batch width"]:
    """Return x[row, index[row]] of x [batch, number, width]."""
    if runs(x):
        return draws.pick(x, index)
    return x[torch.arange(len(index), device=index.device), index]


def room(rows: BatchState, lookahead: int) -> PerRow:
    """Return how many tokens each row may draft: the token after them must still fit."""
    left = torch.where(rows.done, 0, rows.limit - rows.count - 1)
    return left.clamp(min=0, max=lookahead)


def most(lengths: PerRow, lookahead: int) -> int:
    """Return how many drafted tokens some row needs; all of them where looking would wait."""
    return int(lengths.max()) if readable(lengths) else lookahead


def up_to_stop(rows: BatchState, lengths: PerRow, number: int) -> PerRow:
    """Return `lengths` cut after the first stop id among the next `number` tokens, all drafted."""
    drafted = rows.tokens.gather(1, rows.positions(number))
    going = rows.ends[drafted].cumsum(1) == 0
    return torch.minimum(lengths, going.sum(1) + 1)
