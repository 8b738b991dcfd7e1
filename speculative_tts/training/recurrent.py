"""Train a recurrent drafter on a frozen trunk: its layer, its losses step by step, its figures.

Step j reads its own state of step j - 1 and the j-th token after the newest one, and predicts the
distribution of the token after that. The target's distribution there follows from the trunk's
stored state at that position.

A drafted token matters only if all before it were accepted. With `own_drafts` a step is weighted by
how often the layer's own drafts reach it, without drawing any. Let p be its distribution and q the
target's: the exact rule accepts a draft x ~ p with probability min(1, q(x) / p(x)), so the mean of
any f over accepted drafts is

    sum_x p(x) min(1, q(x) / p(x)) f(x) = sum_x q(x) min(1, p(x) / q(x)) f(x).

So tokens of the target itself (sst-own-codes) serve, each weighted by min(1, p(x) / q(x)). A
recorded token that the target never draws has no weight. Otherwise all tokens count alike.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Int
from torch import Tensor, nn

from speculative_tts.models.recurrent import BlockTensors, LayerTensors, layer_of, save_layer
from speculative_tts.training.data.pairs import IGNORED, SequenceBatch
from speculative_tts.training.headed import (
    Loss,
    States,
    called,
    copy_in_order,
    recomputed,
    states_of,
    step_sums,
)
from speculative_tts.training.loop import Values
from speculative_tts.training.objective import Sampler
from speculative_tts.training.trunk import TrainableTrunk

WIDTH = 8  # all blocks' width over the target's; half of it accepts 0.02 to 0.03 less at each step


class RecurrentBlock(nn.Module):
    """One residual block, initialised to change nothing."""

    def __init__(self, hidden: int, width: int) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(2 * hidden, width), nn.Linear(width, hidden)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, states: Tensor, inputs: Tensor) -> Tensor:
        """Map states and token inputs, both [positions, hidden], to new states."""
        more: Tensor = self.out(F.silu(self.inner(torch.cat([states, inputs], -1))))
        return states + more

    def tensors(self) -> BlockTensors:
        """Return the weights as they are stored."""
        parts = (self.inner.weight, self.inner.bias, self.out.weight, self.out.bias)
        return BlockTensors(*(tensor.half() for tensor in parts))


class TrainableRecurrence(nn.Module):
    """Trainable twin of `models.recurrent.RecurrentLayer`; initially it returns its state."""

    def __init__(self, hidden: int, width: int, blocks: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(RecurrentBlock(hidden, width) for _ in range(blocks))

    def forward(self, states: Tensor, inputs: Tensor) -> Tensor:
        """Return the states after tokens of these inputs, [positions, hidden]."""
        for block in self.blocks:
            states = block(states, inputs)
        return states


class StepLosses(NamedTuple):
    """Loss of each step of a layer, by the distribution that the target samples."""

    loss: Loss
    sampler: Sampler  # the target's
    own_drafts: bool  # steps are weighted by how often the layer's own drafts reach them


class RecurrentTrunk(nn.Module):
    """Compute the layer's losses on a frozen trunk over n - 1 steps."""

    def __init__(
        self,
        trunk: TrainableTrunk,
        n: int,
        layer: TrainableRecurrence,
        losses: StepLosses,
        *,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        self._call = recomputed if recompute else called
        self.layer = layer
        self.model = trunk.model.requires_grad_(requires_grad=False)
        self.trunk, self.n, self.ahead = trunk, n, n - 1
        self._loss, self._sampler, self._own_drafts = losses
        self.frequent: Tensor | None = None  # speech ids, the most frequent first

    def states(self, batch: SequenceBatch) -> States:
        """Return hidden states of a batch's speech positions, each sequence's in order."""
        return states_of(self.trunk, batch, self.n)

    def count(self, tokens: Int[Tensor, " n"]) -> None:
        """Rank the ids by how often they occur in `tokens`; the lower of two equal ones first."""
        counts = tokens.bincount(minlength=len(self.trunk.weight))
        self.frequent = counts.argsort(descending=True, stable=True).cpu()

    def go_on(self, folder: Path, target: Path) -> None:
        """Start from an earlier layer; raise ValueError for another target or other sizes."""
        tensors = [part for block in layer_of(folder, target).blocks for part in block]
        copy_in_order(self.layer, tensors, folder)

    def forward(self, states: States) -> tuple[Tensor, Values]:
        """Return the loss summed over steps and positions."""
        losses, reached = [], states.hidden.new_ones(len(states))
        for going, step in self.steps(states):
            loss, passes = self._call(self._scored, *step)
            losses.append((reached[going] * loss).sum())
            if self._own_drafts:
                reached = reached.index_put((going,), reached[going] * passes)
        return torch.stack(losses).sum(), {}

    @torch.no_grad()
    def dev_sums(self, states: States) -> Tensor:
        """Return loss, right tokens, expected acceptance and positions of each step: [n - 1, 4]."""
        own = self.trunk.own
        drafted = (
            (own(state).float(), wanted, own(behind).float())
            for _, (state, wanted, behind) in self.steps(states)
        )
        return step_sums(drafted, self._loss, self._sampler)

    def save(self, folder: Path, target: Path, about: dict[str, Any]) -> None:
        """Write the layer and the ranking of ids."""
        blocks = tuple(
            block.tensors() for block in self.layer.blocks if isinstance(block, RecurrentBlock)
        )
        save_layer(folder, LayerTensors(blocks, self.frequent), target=target, about=about)

    def _scored(self, state: Tensor, wanted: Tensor, behind: Tensor) -> tuple[Tensor, Tensor]:
        """Return a step's losses and, with own drafts, how often each next token passes."""
        logits = self.trunk.own(state)
        with torch.no_grad():
            target = self.trunk.own(behind)
        loss = self._loss(logits, wanted, target)
        return loss, self._passes(logits, wanted, target) if self._own_drafts else loss

    @torch.no_grad()
    def _passes(self, logits: Tensor, wanted: Tensor, target: Tensor) -> Tensor:
        """Return min(1, p(x) / q(x)) of the next tokens, by the target's sampler; 0 where q is."""
        p, q = (
            self._sampler(of.float()).gather(1, wanted[:, None])[:, 0] for of in (logits, target)
        )
        return torch.where(q > 0, (p / q).clamp(max=1), 0)

    def steps(self, states: States) -> Iterator[tuple[Tensor, tuple[Tensor, Tensor, Tensor]]]:
        """Yield each step's positions, the layer's states, the next tokens, the target's states.

        Positions whose sequence ended or was cut take no part: nothing follows that is known.
        """
        trunk, state = self.trunk, states.hidden[:, 0]
        for step in range(1, self.n):
            fed, wanted = (states.targets[:, at].long() for at in (step - 1, step))
            going = (fed != trunk.stop_id) & (wanted != IGNORED)
            state = self.layer(state, trunk.embedding[fed.clamp(min=0)])
            yield going, (state[going], wanted[going], states.hidden[:, step][going])
