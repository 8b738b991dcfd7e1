"""A recurrent drafter on a frozen trunk: its layer, its losses step by step, its figures.

Step j reads its own state of step j - 1 and the j-th token of the data behind the newest one, and
says the law of the token after that. The target's law there is at hand: its state is the trunk's
of that position, which is kept.

A draft counts only where all before it were accepted. With `own_drafts` a step is learnt as often
as the layer's own drafts come to it, without drawing any. Let p be its law and q the target's: of
drafts x ~ p the exact rule accepts min(1, q(x) / p(x)), and what is behind accepted ones is

    sum_x p(x) min(1, q(x) / p(x)) f(x) = sum_x q(x) min(1, p(x) / q(x)) f(x),

so tokens of the target itself (sst-own-codes) do, each weighted by min(1, p(x) / q(x)). A recorded
token that the target never says has no weight. Otherwise all tokens of the data count alike.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float, Int
from torch import Tensor, nn

from speculative_tts.models.recurrent import BlockTensors, LayerTensors, layer_of, save_layer
from speculative_tts.training.data.pairs import Batch
from speculative_tts.training.data.recordings import IGNORED
from speculative_tts.training.headed import States, copy_in_order, mean_figures, states_of
from speculative_tts.training.loop import Values
from speculative_tts.training.objective import Sampler
from speculative_tts.training.trunk import Trunk

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # logits, wanted ids, target logits: [n]
WIDTH = 8  # times the target's, of all blocks; half as wide accepts 0.02 to 0.03 less at every step


class Block(nn.Module):
    """At first it changes nothing."""

    def __init__(self, hidden: int, width: int) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(2 * hidden, width), nn.Linear(width, hidden)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, states: Tensor, inputs: Tensor) -> Tensor:
        """States and inputs of tokens, [positions, hidden], to states."""
        more: Tensor = self.out(F.silu(self.inner(torch.cat([states, inputs], -1))))
        return states + more

    def tensors(self) -> BlockTensors:
        """As they are stored."""
        both = (self.inner.weight, self.inner.bias, self.out.weight, self.out.bias)
        return BlockTensors(*(tensor.half() for tensor in both))


class Recurrence(nn.Module):
    """As `models.recurrent.RecurrentLayer`; at first what the target said before is said again."""

    def __init__(self, hidden: int, width: int, blocks: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(hidden, width) for _ in range(blocks))

    def forward(self, states: Tensor, inputs: Tensor) -> Tensor:
        """The states behind tokens of these inputs, [positions, hidden]."""
        for block in self.blocks:
            states = block(states, inputs)
        return states


class RecurrentTrunk(nn.Module):
    """The layer on a frozen trunk, trained over n - 1 steps; `sampler` is the target's."""

    def __init__(
        self,
        trunk: Trunk,
        n: int,
        layer: Recurrence,
        loss: Loss,
        sampler: Sampler,
        *,
        own_drafts: bool,
    ) -> None:
        super().__init__()
        self.layer = layer
        self.model = trunk.model.requires_grad_(requires_grad=False)
        self.trunk, self.n, self.ahead = trunk, n, n - 1
        self._loss, self._sampler, self._own_drafts = loss, sampler, own_drafts
        self.frequent: Tensor | None = None  # speech ids, the most frequent first

    def states(self, batch: Batch) -> States:
        """Hidden states of a batch's speech positions, of a sequence side by side."""
        return states_of(self.trunk, batch, self.n)

    def count(self, said: Int[Tensor, " n"]) -> None:
        """Which ids are frequent among these; of equally frequent ones the lower first."""
        counts = said.bincount(minlength=len(self.trunk.weight))
        self.frequent = counts.argsort(descending=True, stable=True).cpu()

    def go_on(self, folder: Path, target: Path) -> None:
        """Begin with an earlier layer. ValueError for one of another target or of other sizes."""
        tensors = [part for block in layer_of(folder, target).blocks for part in block]
        copy_in_order(self.layer, tensors, folder)

    def forward(self, states: States) -> tuple[Tensor, Values]:
        """The losses of the steps, summed over positions."""
        losses, reached = [], states.hidden.new_ones(len(states))
        for going, step in self._steps(states):
            losses.append((reached[going] * self._loss(*step)).sum())
            if self._own_drafts:
                reached = reached.index_put((going,), reached[going] * self._passes(*step))
        return torch.stack(losses).sum(), {}

    @torch.no_grad()
    def dev_sums(self, states: States) -> Tensor:
        """Loss, right tokens, expected acceptance and positions of each step: [n - 1, 4]."""
        rows = []
        for _, (logits, wanted, target) in self._steps(states):
            p, q = self._sampler(logits), self._sampler(target)
            values = (
                self._loss(logits, wanted, target).sum(),
                (logits.argmax(-1) == wanted).sum(),
                torch.minimum(p, q).sum(),
            )
            rows.append([*map(float, values), len(wanted)])
        return torch.tensor(rows, dtype=torch.float64)

    def figures(self, sums: Float[Tensor, "steps 4"]) -> dict[str, Any]:
        """The sum of mean losses, each step's accuracy and expected acceptance."""
        accepted = (sums[:, 2] / sums[:, 3]).tolist()
        figures = mean_figures(sums[:, [0, 1, 3]])
        return figures | {"dev_acceptances": [round(share, 4) for share in accepted]}

    def save(self, folder: Path, target: Path, about: dict[str, Any]) -> None:
        """Write the layer, and which ids are frequent."""
        blocks = tuple(block.tensors() for block in self.layer.blocks if isinstance(block, Block))
        save_layer(folder, LayerTensors(blocks, self.frequent), target=target, about=about)

    @torch.no_grad()
    def _passes(self, logits: Tensor, wanted: Tensor, target: Tensor) -> Tensor:
        """min(1, p(x) / q(x)) of the tokens wanted, by the target's sampler; 0 where q is."""
        p, q = (self._sampler(of).gather(1, wanted[:, None])[:, 0] for of in (logits, target))
        return torch.where(q > 0, (p / q).clamp(max=1), 0)

    def _steps(self, states: States) -> Iterator[tuple[Tensor, tuple[Tensor, Tensor, Tensor]]]:
        """Positions of each step, the layer's logits, the token wanted and the target's logits.

        Those whose sequence goes on: nothing is drafted behind the end, or known behind a cut.
        """
        trunk, state = self.trunk, states.hidden[:, 0]
        for step in range(1, self.n):
            fed, wanted = (states.targets[:, at].long() for at in (step - 1, step))
            going = (fed != trunk.stop_id) & (wanted != IGNORED)
            state = self.layer(state, trunk.embedding[fed.clamp(min=0)])
            with torch.no_grad():
                target = trunk.own(states.hidden[:, step][going])
            yield going, (trunk.own(state[going]), wanted[going], target)
