"""Prefill on a GPU: prompts padded to one pass, replayed as a CUDA graph by batch and length.

A recorded prefill takes the rows of the cache to fill as numbers, so that a stream whose rows end
one by one records one graph, not one a row. It lives as long as the cache.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from speculative_tts.models.decoder.cache import KVCache
from speculative_tts.models.decoder.stack import DecoderStack
from speculative_tts.models.gpu import step
from speculative_tts.models.gpu.capture import recorded, replaying

TOGETHER = 16_384  # positions of a pass
FINE, COARSE = 16, 64  # lengths are rounded up to these: more waste, fewer graphs
LARGE = 2_048  # positions of a pass whose time grows with them


def prefill(stack: DecoderStack, prompts: list[Tensor], cache: KVCache) -> Tensor:
    """Fill the cache with prompts ([length, hidden] each); returns last states [batch, hidden].

    A row's numbers may differ in their last bits with what stands beside it.
    """
    longest = max(map(len, prompts))
    length = min(cache.capacity, bucket(longest, len(prompts)))
    several, last = max(1, TOGETHER // length), []
    for first in range(0, len(prompts), several):
        some = prompts[first : first + several]
        key = len(some), length
        inputs = PaddedPrompts.of(some, length, cache.first + first, stack.dtype)
        last.append(_run(stack, cache, key, inputs))
    return last[0] if len(last) == 1 else torch.cat(last)


def bucket(longest: int, batch: int) -> int:
    """Return a length that prompts of nearly the same length share."""
    whole = COARSE if longest * batch <= LARGE else FINE
    return -(-longest // whole) * whole


@dataclass(frozen=True)
class PaddedPrompts:
    """Padded prompts, the last position of each and the rows of the cache that they fill."""

    padded: Tensor  # [batch, length, hidden]
    ends: Tensor  # int64 [batch]
    rows: Tensor  # int64 [batch]

    @classmethod
    def of(
        cls, prompts: list[Tensor], length: int, first: int, dtype: torch.dtype
    ) -> "PaddedPrompts":
        """Pad prompts with zeros to `length`; they fill rows from `first`."""
        batch, device = len(prompts), prompts[0].device
        padded = prompts[0].new_zeros(batch, length, prompts[0].shape[1], dtype=dtype)
        together = pad_sequence(prompts, batch_first=True)
        padded[:, : together.shape[1]] = together
        ends = torch.tensor([len(prompt) - 1 for prompt in prompts], device=device)
        return cls(padded, ends, first + torch.arange(batch, device=device))

    def copy_(self, other: "PaddedPrompts") -> None:
        """Take over another's values."""
        self.padded.copy_(other.padded)
        self.ends.copy_(other.ends)
        self.rows.copy_(other.rows)


@dataclass(frozen=True)
class Recorded:
    """A prefill that can be replayed: it reads `inputs` and fills `last`."""

    graph: torch.cuda.CUDAGraph
    inputs: PaddedPrompts
    last: Tensor


def _run(
    stack: DecoderStack, cache: KVCache, key: tuple[int, int], inputs: PaddedPrompts
) -> Tensor:
    """Run as it is the first time, record the second, replay from then on."""
    seen, turns = cache.prefills, step.turns_of(cache)
    if not replaying() or key not in seen:
        seen.setdefault(key, None)
        return _last(stack, inputs, cache.storage, turns)
    known: Recorded | None = seen[key]
    if known is None:
        last_of = partial(_last, stack, inputs, cache.storage, turns)
        graph, last = recorded(last_of, _pool(cache))
        known = seen[key] = Recorded(graph, inputs, last)
    known.inputs.copy_(inputs)
    known.graph.replay()
    return known.last.clone()


def _last(stack: DecoderStack, inputs: PaddedPrompts, storage: Tensor, turns: Tensor) -> Tensor:
    """Run a pass and return the states of each prompt's last position."""
    states = step.prefill(stack, inputs.padded, storage, inputs.rows, turns)
    return states[torch.arange(len(inputs.ends), device=states.device), inputs.ends]


def _pool(cache: KVCache) -> Any:
    """Return the memory that a cache's recorded prefills share, None before the first.

    It is a graph's: memory of graphs that were all let go cannot be asked for again.
    """
    known = (one for one in cache.prefills.values() if one is not None)
    first: Recorded | None = next(known, None)
    return None if first is None else first.graph.pool()
