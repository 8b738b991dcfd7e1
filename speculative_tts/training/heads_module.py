"""Training of multi-token heads: n linear heads (or Medusa's blocks) on a target's hidden states.

The loss is the sum of the heads' cross entropies (Nguyen et al., 2025, eq. 3): head i predicts the
token i places after the next one, and the stop id behind the end. On a frozen trunk its hidden
states are computed once and kept in memory (half precision), and heads are trained on minibatches
of them; the target's own head is head 0 and stays. Or the trunk and its head are trained along.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from tqdm import tqdm

from speculative_tts.models.heads import HeadTensors
from speculative_tts.schema import HeadKind, Optimiser, TrainHeadsConfig
from speculative_tts.training.data.recordings import IGNORED
from speculative_tts.training.objective import Batch
from speculative_tts.training.scaled_adam import ScaledAdam, eden


class HeadsModule(nn.Module):
    """Heads 1 .. n - 1, each starting as a copy of `own` [vocab, hidden], the target's head."""

    def __init__(self, own: Tensor, bias: Tensor | None, n: int, kind: HeadKind) -> None:
        super().__init__()
        hidden, more = own.shape[1], n - 1
        self.weight = nn.Parameter(own.detach().float().repeat(more, 1, 1))
        self.bias = None if bias is None else nn.Parameter(bias.detach().float().repeat(more, 1))
        residual = kind is HeadKind.residual
        self.block_weight = nn.Parameter(torch.zeros(more, hidden, hidden)) if residual else None
        self.block_bias = nn.Parameter(torch.zeros(more, hidden)) if residual else None

    def forward(self, hidden: Tensor, head: int) -> Tensor:
        """Logits [positions, vocab] of head `head` (from 1)."""
        index = head - 1
        if self.block_weight is not None and self.block_bias is not None:
            inner = F.linear(hidden, self.block_weight[index], self.block_bias[index])
            hidden = hidden + F.silu(inner)
        bias = None if self.bias is None else self.bias[index]
        return F.linear(hidden, self.weight[index], bias)

    def tensors(self, own: Tensor, bias: Tensor | None, dtype: torch.dtype) -> HeadTensors:
        """All n heads as they are stored, the target's first."""

        def whole(first: Tensor, rest: Tensor | None) -> Tensor | None:
            return (
                None if rest is None else torch.cat([first[None].float(), rest.detach()]).to(dtype)
            )

        hidden = own.shape[1]
        weight = whole(own, self.weight)
        assert weight is not None
        return HeadTensors(
            weight,
            None if bias is None else whole(bias, self.bias),
            whole(torch.zeros(hidden, hidden), self.block_weight),
            whole(torch.zeros(hidden), self.block_bias),
        )


@dataclass(frozen=True)
class States:
    """Final hidden states [positions, hidden] and what each head predicts there [positions, n]."""

    hidden: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.hidden)


def head_targets(targets: Tensor, n: int, stop_id: int) -> Tensor:
    """Targets of n heads: [batch, length] -> [batch, length, n].

    `targets` are those of the next token, IGNORED outside speech; behind the end is the stop id.
    """
    padded = F.pad(targets, (0, n - 1), value=IGNORED)
    shifted = padded.unfold(1, n, 1)
    ahead = torch.where(shifted == IGNORED, stop_id, shifted)
    return torch.where(targets[..., None] == IGNORED, IGNORED, ahead)


Trunk = Callable[[Tensor], Tensor]  # ids [batch, length] -> hidden states [batch, length, hidden]


def collect(
    trunk: Trunk, batches: Sequence[Batch] | Iterator[Batch], n: int, stop_id: int, total: int
) -> States:
    """Hidden states of every speech position, float16, with their targets (int32)."""
    hidden, targets = [], []
    for batch in tqdm(batches, total=total, desc="hidden states", unit="batch"):
        speech = batch.targets != IGNORED
        with torch.no_grad():
            hidden.append(trunk(batch.inputs)[speech].half())
        targets.append(head_targets(batch.targets, n, stop_id)[speech].int())
    return States(torch.cat(hidden), torch.cat(targets))


def losses(
    heads: HeadsModule, own: Callable[[Tensor], Tensor] | None, hidden: Tensor, targets: Tensor
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Head number, its mean cross entropy (nats) and accuracy; `own` makes head 0's logits."""
    for head in range(targets.shape[1]):
        if head == 0 and own is None:
            continue
        logits = own(hidden) if head == 0 and own is not None else heads(hidden, head)
        wanted = targets[:, head].long()
        hits = (logits.detach().argmax(-1) == wanted).float().mean()
        yield head, F.cross_entropy(logits.float(), wanted), hits


@torch.no_grad()
def dev_figures(
    heads: HeadsModule, own: Callable[[Tensor], Tensor], states: States, size: int = 4096
) -> dict[str, Any]:
    """Sum of the heads' losses, and each head's accuracy."""
    n = states.targets.shape[1]
    loss, hits = [0.0] * n, [0.0] * n
    for begin in range(0, len(states), size):
        part = slice(begin, begin + size)
        hidden, targets = states.hidden[part].float(), states.targets[part]
        for head, nats, share in losses(heads, own, hidden, targets):
            loss[head] += float(nats) * len(hidden)
            hits[head] += float(share) * len(hidden)
    total = len(states)
    accuracies = [round(count / total, 4) for count in hits]
    return {"dev_loss": sum(loss) / total, "dev_accuracies": accuracies}


def build_optimizer(
    parameters: Sequence[nn.Parameter], config: TrainHeadsConfig
) -> torch.optim.Optimizer:
    """AdamW, or ScaledAdam with the paper's settings."""
    if config.optimiser is Optimiser.scaled_adam:
        return ScaledAdam(parameters, lr=config.learning_rate)
    return torch.optim.AdamW(
        parameters, lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=config.weight_decay
    )


def learning_rate(step: int, epoch: float, config: TrainHeadsConfig) -> float:
    """Eden with scaled_adam; else a linear rise and a cosine down to zero at the last step."""
    if config.optimiser is Optimiser.scaled_adam:
        return eden(config.learning_rate, batch=step, epoch=epoch, warmup=config.warmup)
    if step < config.warmup:
        return config.learning_rate * (step + 1) / config.warmup
    done = (step - config.warmup) / max(1, config.steps - config.warmup)
    return config.learning_rate * 0.5 * (1 + float(torch.cos(torch.tensor(torch.pi * done))))
