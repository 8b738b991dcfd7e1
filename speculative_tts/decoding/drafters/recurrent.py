"""A small recurrent layer on the target's newest state as the drafter (EAGLE and Hydra family).

It reads the state that the newest token was drawn from and that token, and makes the state behind;
the target's head says the next token's law, and both go in again. It has neither prompt nor cache.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from speculative_tts.decoding.batch import BatchState, Size
from speculative_tts.decoding.drafters.drafter import Laws, PerRow, most, room, up_to_stop
from speculative_tts.decoding.drafters.newest import NewestStates
from speculative_tts.decoding.sampling.randomness import DRAFT, draw
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.recurrent import RecurrentLayer
from speculative_tts.native import recurrent
from speculative_tts.native.walk import Drafter


class Embedded(Protocol):
    """What of the target a recurrent layer is used with."""

    @property
    def vocab_size(self) -> int:
        """Speech ids."""
        ...

    def embed(self, ids: Tensor) -> Tensor:
        """Inputs of speech ids: [..., hidden]."""
        ...


@dataclass(frozen=True)
class RecurrentDrafter:
    """Drafts token by token from the target's hidden state."""

    target: Embedded
    layer: RecurrentLayer
    reach: ClassVar[None] = None

    def start(self, size: Size) -> "RecurrentDrafting":  # noqa: ARG002
        """See `Drafter`."""
        return RecurrentDrafting(self)


class RecurrentDrafting(NewestStates):
    """One batch's newest states."""

    def __init__(self, drafter: RecurrentDrafter) -> None:
        super().__init__()
        self._target, self._layer = drafter.target, drafter.layer

    def native(self, sampler: Sampler, lookahead: int) -> Drafter | None:  # noqa: ARG002 - any
        """The same natively, where the layer is; it reads the states in place."""
        if self._layer.native is None or self._hidden is None:
            return None
        return recurrent.drafter(self._layer.native, self._hidden)

    def propose(self, rows: BatchState, sampler: Sampler, lookahead: int) -> tuple[PerRow, Laws]:
        """See `Drafting`."""
        assert self._hidden is not None
        target, state, drafted = self._target, self._hidden, room(rows, lookahead)
        number, positions = most(drafted, lookahead), rows.positions(lookahead)
        laws = [torch.empty(len(drafted), 0, target.vocab_size, device=drafted.device)]
        for step in range(number):
            position = positions[:, step, None]
            newest = rows.tokens.gather(1, position - 1)[:, 0].clamp(max=target.vocab_size - 1)
            state = self._layer(state, target.embed(newest))
            logits = self._layer.logits(state)[:, None]
            laws.append(sampler(logits, rows.tokens, position, rows.stop))
            rows.tokens.scatter_(1, position, draw(laws[-1], rows.uniform(position, DRAFT)))
        return up_to_stop(rows, drafted, number), torch.cat(laws, 1)
