"""Multi-token heads on a trunk, as one module that computes losses."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from speculative_tts.models.heads import HeadTensors, heads_of, save_heads
from speculative_tts.schema.train import HeadKind
from speculative_tts.training.data.pairs import IGNORED, SequenceBatch
from speculative_tts.training.loop import Values
from speculative_tts.training.objective import Sampler
from speculative_tts.training.trunk import TrainableTrunk

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # logits, wanted ids, target logits: [n]
Drafted = tuple[Tensor, Tensor, Tensor]
"""Of one step: draft logits [n, vocab], wanted ids [n], the target's logits [n, vocab]."""


class HeadsModule(nn.Module):
    """Heads 1 .. n - 1, each starting as a copy of `own` [vocab, hidden], the target's head."""

    def __init__(self, own: Tensor, bias: Tensor | None, n: int, kind: HeadKind) -> None:
        super().__init__()
        hidden, more = own.shape[1], n - 1
        self.weight = nn.ParameterList(own.detach().float().clone() for _ in range(more))
        self.bias = None if bias is None else nn.Parameter(bias.detach().float().repeat(more, 1))
        residual = kind is HeadKind.residual
        self.block_weight = nn.Parameter(torch.zeros(more, hidden, hidden)) if residual else None
        self.block_bias = nn.Parameter(torch.zeros(more, hidden)) if residual else None

    def forward(self, hidden: Tensor, head: int) -> Tensor:
        """Return logits [positions, vocab] of head `head` (counted from 1)."""
        index = head - 1
        if self.block_weight is not None and self.block_bias is not None:
            inner = F.linear(hidden, self.block_weight[index], self.block_bias[index])
            hidden = hidden + F.silu(inner)
        bias = None if self.bias is None else self.bias[index]
        return F.linear(hidden, self.weight[index], bias)

    def tensors(self, own: Tensor, bias: Tensor | None, dtype: torch.dtype) -> HeadTensors:
        """Return all n heads as they are stored, the target's own first."""

        def whole(first: Tensor | None, rest: Tensor | None) -> Tensor | None:
            if first is None or rest is None:
                return None
            return torch.cat([first.detach()[None].float().cpu(), rest.detach().cpu()]).to(dtype)

        hidden = own.shape[1]
        weight = whole(own, torch.stack([*self.weight]))
        assert weight is not None
        zero = torch.zeros(hidden, hidden)
        return HeadTensors(
            weight,
            whole(bias, self.bias),
            whole(zero, self.block_weight),
            whole(zero[0], self.block_bias),
        )


@dataclass(frozen=True)
class States:
    """Final hidden states [positions, hidden] and each head's target token [positions, n]."""

    hidden: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.hidden)

    def at(self, positions: slice | Tensor, ahead: int = 0) -> "States":
        """Return some positions in float32, with the states of the `ahead` positions after each.

        With `ahead` the hidden states are [positions, 1 + ahead, hidden].
        """
        if not ahead:
            return States(self.hidden[positions].float(), self.targets[positions])
        following = torch.arange(len(self))[positions, None] + torch.arange(1 + ahead)
        hidden = self.hidden[following.clamp(max=len(self) - 1)]
        return States(hidden.float(), self.targets[positions])


def states_of(trunk: TrainableTrunk, batch: SequenceBatch, n: int) -> States:
    """Return hidden states of a batch's speech positions, and the n tokens that follow each."""
    targets = trunk.speech_ids(batch.targets)
    speech = targets != IGNORED
    ahead = head_targets(targets, n, trunk.stop_id)[speech]
    return States(trunk.hidden(batch.inputs)[speech], ahead)


def head_targets(targets: Tensor, n: int, stop_id: int) -> Tensor:
    """Return the targets of n heads: [batch, length] -> [batch, length, n].

    `targets` are those of the next token, IGNORED outside speech. After the end comes the stop id;
    a sequence that was cut has none, and what follows it is unknown: IGNORED.
    """
    ended = (targets == stop_id).any(1)[:, None, None]
    padded = F.pad(targets, (0, n - 1), value=IGNORED)
    shifted = padded.unfold(1, n, 1)
    ahead = torch.where((shifted == IGNORED) & ended, stop_id, shifted)
    return torch.where(targets[..., None] == IGNORED, IGNORED, ahead)


def recomputed(function: Callable[..., Any], *given: Any) -> Any:
    """Call a function whose intermediate results are computed again for its gradient, not kept.

    Logits over a vocabulary are what a head's loss keeps otherwise.
    """
    return checkpoint(function, *given, use_reentrant=False)


def called(function: Callable[..., Any], *given: Any) -> Any:
    """Call a function."""
    return function(*given)


class HeadedTrunk(nn.Module):
    """Heads on a trunk, which is frozen or trained with them."""

    def __init__(
        self,
        trunk: TrainableTrunk,
        n: int,
        kind: HeadKind,
        *,
        train_trunk: bool,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        self._call = recomputed if recompute else called
        self.heads = HeadsModule(trunk.weight, trunk.bias, n, kind)
        self.model = trunk.model.requires_grad_(train_trunk)
        self.trunk, self.n, self.train_trunk = trunk, n, train_trunk
        self.ahead = 0  # following positions whose states are read too

    def go_on(self, folder: Path, target: Path) -> None:
        """Start from earlier heads; raise ValueError for another target, kind or number."""
        stored = heads_of(folder, target)
        more = (part[1:] for part in stored.parts[1:] if part is not None)
        tensors = [*more, *stored.weight[1:]]
        copy_in_order(self.heads, tensors, folder)

    def states(self, batch: SequenceBatch) -> States:
        """Return hidden states of a batch's speech positions."""
        return states_of(self.trunk, batch, self.n)

    def forward(self, batch: SequenceBatch | States) -> tuple[Tensor, Values]:
        """Return the loss of the trained heads, summed over positions (nats)."""
        states = batch if isinstance(batch, States) else self.states(batch)
        heads = range(0 if self.train_trunk else 1, self.n)
        sums = [self._call(self.sums, states, head)[0] for head in heads]
        return torch.stack(sums).sum(), {}

    @torch.no_grad()
    def dev_sums(self, states: States) -> Tensor:
        """Return nats, right tokens and positions of each head: float64 [n, 3]."""
        known = (states.targets != IGNORED).sum(0).tolist()
        counts = [(*map(float, self.sums(states, head)), known[head]) for head in range(self.n)]
        return torch.tensor(counts, dtype=torch.float64)

    def save(self, folder: Path, target: Path, about: dict[str, Any]) -> None:
        """Write the heads."""
        tensors = self.heads.tensors(self.trunk.weight, self.trunk.bias, torch.float16)
        save_heads(folder, tensors, target=target, about=about)

    def sums(self, states: States, head: int) -> tuple[Tensor, Tensor]:
        """Return a head's summed cross entropy and its right tokens; head 0 is the target's own."""
        hidden, wanted = states.hidden, states.targets[:, head].long()
        logits = self.trunk.own(hidden) if head == 0 else self.heads(hidden, head)
        right = (logits.detach().argmax(-1) == wanted).float().sum()
        nats = F.cross_entropy(logits.float(), wanted, ignore_index=IGNORED, reduction="sum")
        return nats, right


@torch.no_grad()
def copy_in_order(module: nn.Module, tensors: Sequence[Tensor], folder: Path) -> None:
    """Copy into the module's parameters, in their order; raise ValueError where sizes differ."""
    named = dict(module.named_parameters())
    sizes = [[*of.shape] for of in named.values()], [[*of.shape] for of in tensors]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"init={folder} has parameters of sizes {sizes[1]}, this training {sizes[0]}; give n, "
            "kind, width and blocks as they were there"
        )
    for parameter, stored in zip(named.values(), tensors, strict=True):
        parameter.copy_(stored)


def step_sums(steps: Iterable[Drafted], loss: Loss, sampler: Sampler) -> Float[Tensor, "steps 4"]:
    """Return loss, right tokens, expected acceptance and positions of each step, summed."""
    rows = [
        (
            float(loss(logits, wanted, target).sum()),
            float((logits.argmax(-1) == wanted).sum()),
            float(torch.minimum(sampler(logits), sampler(target)).sum()),
            len(wanted),
        )
        for logits, wanted, target in steps
    ]
    return torch.tensor(rows, dtype=torch.float64)


def mean_figures(sums: Float[Tensor, "parts sums"]) -> dict[str, Any]:
    """Return the sum of mean losses, and each part's accuracy and expected acceptance.

    A row has nats, right tokens, where it is known the expected acceptance, and positions.
    """
    loss, *shares = (sums[:, :-1] / sums[:, -1:]).T
    names = ("dev_accuracies", "dev_acceptances")
    rounded = ([round(share, 4) for share in each.tolist()] for each in shares)
    return {"dev_loss": float(loss.sum()), **dict(zip(names, rounded, strict=False))}
