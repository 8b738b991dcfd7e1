"""Training of multi-token heads: n linear heads (or Medusa's blocks) on a target's hidden states.

The loss is the sum of the heads' cross entropies (Nguyen et al., 2025, eq. 3): head i predicts the
token i places after the next one, and the stop id behind the end. On a frozen trunk its hidden
states are computed once and kept in memory (half precision), and heads are trained on minibatches
of them; the target's own head is head 0 and stays. Or the trunk and its head are trained along.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from accelerate import Accelerator
from torch import Tensor, nn
from tqdm import tqdm

from speculative_tts.models.heads import HeadTensors, save_heads, target_hash
from speculative_tts.schema import HeadKind, Optimiser, TrainHeadsConfig
from speculative_tts.training.data.pairs import Batch, Data, load_data
from speculative_tts.training.data.recordings import IGNORED
from speculative_tts.training.journal import Log, silent
from speculative_tts.training.loop import Learning, Plan, Training, Values
from speculative_tts.training.optimiser import adamw
from speculative_tts.training.scaled_adam import ScaledAdam
from speculative_tts.training.schedule import Rate, cosine, eden_steps
from speculative_tts.training.state import TRAINING, done_before, settings_of
from speculative_tts.training.trunk import Trunk, load_trunk

STATE_BATCH = 16  # sequences run through a frozen trunk at once
DEV_POSITIONS = 4096  # at once

logger = logging.getLogger(__name__)


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

        def whole(first: Tensor | None, rest: Tensor | None) -> Tensor | None:
            if first is None or rest is None:
                return None
            return torch.cat([first.detach()[None].float(), rest.detach()]).to("cpu", dtype)

        hidden = own.shape[1]
        weight = whole(own, self.weight)
        assert weight is not None
        zero = torch.zeros(hidden, hidden, device=own.device)
        return HeadTensors(
            weight,
            whole(bias, self.bias),
            whole(zero, self.block_weight),
            whole(zero[0], self.block_bias),
        )


@dataclass(frozen=True)
class States:
    """Final hidden states [positions, hidden] and what each head predicts there [positions, n]."""

    hidden: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.hidden)

    def at(self, positions: slice | Tensor) -> "States":
        """Some positions, as heads read them."""
        return States(self.hidden[positions].float(), self.targets[positions])


def head_targets(targets: Tensor, n: int, stop_id: int) -> Tensor:
    """Targets of n heads: [batch, length] -> [batch, length, n].

    `targets` are those of the next token, IGNORED outside speech; behind the end is the stop id.
    """
    padded = F.pad(targets, (0, n - 1), value=IGNORED)
    shifted = padded.unfold(1, n, 1)
    ahead = torch.where(shifted == IGNORED, stop_id, shifted)
    return torch.where(targets[..., None] == IGNORED, IGNORED, ahead)


class HeadedTrunk(nn.Module):
    """Heads on a trunk, which is trained along or frozen."""

    def __init__(self, trunk: Trunk, n: int, kind: HeadKind, *, train_trunk: bool) -> None:
        super().__init__()
        self.heads = HeadsModule(trunk.weight, trunk.bias, n, kind)
        self.model = trunk.model.requires_grad_(train_trunk)
        self.trunk, self.n, self.train_trunk = trunk, n, train_trunk

    def states(self, batch: Batch) -> States:
        """Hidden states of a batch's speech positions."""
        targets = self.trunk.speech_ids(batch.targets)
        speech = targets != IGNORED
        ahead = head_targets(targets, self.n, self.trunk.stop_id)[speech]
        return States(self.trunk.hidden(batch.inputs)[speech], ahead)

    def forward(self, batch: Batch | States) -> tuple[Tensor, Values]:
        """The losses of the heads that are trained, summed over positions (nats)."""
        states = batch if isinstance(batch, States) else self.states(batch)
        heads = range(0 if self.train_trunk else 1, self.n)
        return torch.stack([self.sums(states, head)[0] for head in heads]).sum(), {}

    def sums(self, states: States, head: int) -> tuple[Tensor, Tensor]:
        """Cross entropy of a head and its right tokens; head 0 is the target's own."""
        hidden, wanted = states.hidden, states.targets[:, head].long()
        logits = self.trunk.own(hidden) if head == 0 else self.heads(hidden, head)
        right = (logits.detach().argmax(-1) == wanted).float().sum()
        return F.cross_entropy(logits.float(), wanted, reduction="sum"), right


class HeadsTraining(Training):
    """Heads on positions drawn from kept hidden states; or with their trunk, on sequences."""

    def __init__(
        self, config: TrainHeadsConfig, trunk: Trunk, data: Data, accelerator: Accelerator
    ) -> None:
        module = HeadedTrunk(trunk, config.n, config.kind, train_trunk=config.train_trunk)
        parameters = {n: p for n, p in module.named_parameters() if p.requires_grad}
        optimizer = build_optimizer(list(parameters.values()), config)
        learning = Learning(module.train(mode=False), parameters, [optimizer], build_rate(config))
        losses = config.n if config.train_trunk else config.n - 1
        plan = Plan(config.steps, config.save_every, config.eval_every, clip=float(losses))
        folder = Path(config.out) / TRAINING
        super().__init__(folder, plan, learning, accelerator)
        self.headed, self._config, self._data = module, config, data

    def batch(self, step: int, number: int) -> Batch | States:  # noqa: ARG002 - nothing changes
        """Positions, a function of (seed, number); with the trunk the next sequences."""
        size = self._config.batch_size
        if self._config.train_trunk:
            batch = self._data.batch(range(number * size, (number + 1) * size))
            return batch.to(self.accelerator.device)
        generator = torch.Generator().manual_seed(self._config.seed * 1_000_003 + number)
        kept = self._kept
        return kept.at(torch.randint(len(kept), (min(size, len(kept)),), generator=generator))

    def weight(self, batch: Batch | States) -> float:
        """Positions."""
        return len(batch) if isinstance(batch, States) else int((batch.targets != IGNORED).sum())

    def evaluate(self) -> dict[str, Any]:
        """Sum of the heads' losses, and each head's accuracy."""
        states = self._dev_states() if self._config.train_trunk else self._kept_dev
        return dev_figures(self.headed, states)

    @cached_property
    def _kept(self) -> States:
        """Hidden states of config.sequences training sequences."""
        count = self._config.sequences
        numbers = (range(s, min(s + STATE_BATCH, count)) for s in range(0, count, STATE_BATCH))
        return self._collect(map(self._data.batch, numbers), -(-count // STATE_BATCH))

    @cached_property
    def _kept_dev(self) -> States:
        return self._dev_states()

    def _dev_states(self) -> States:
        return self._collect(self._data.dev, len(self._data.dev))

    @torch.no_grad()
    def _collect(self, batches: Iterable[Batch], total: int) -> States:
        """Hidden states of every speech position, float16, with their targets (int32)."""
        hidden, targets = [], []
        for batch in tqdm(batches, total=total, desc="hidden states", unit="batch", disable=None):
            states = self.headed.states(batch.to(self.accelerator.device))
            hidden.append(states.hidden.half())
            targets.append(states.targets.int())
        return States(torch.cat(hidden), torch.cat(targets))


@torch.no_grad()
def dev_figures(headed: HeadedTrunk, states: States) -> dict[str, Any]:
    """Sum of the heads' losses, and each head's accuracy."""
    sums = torch.zeros(headed.n, 2, dtype=torch.float64)
    for begin in range(0, len(states), DEV_POSITIONS):
        part = states.at(slice(begin, begin + DEV_POSITIONS))
        sums += torch.tensor(
            [list(map(float, headed.sums(part, head))) for head in range(headed.n)]
        )
    means = sums / len(states)
    accuracies = [round(share, 4) for share in means[:, 1].tolist()]
    return {"dev_loss": float(means[:, 0].sum()), "dev_accuracies": accuracies}


def build_optimizer(
    parameters: Sequence[nn.Parameter], config: TrainHeadsConfig
) -> torch.optim.Optimizer:
    """AdamW, or ScaledAdam with the paper's settings."""
    if config.optimiser is Optimiser.scaled_adam:
        return ScaledAdam(parameters, lr=config.learning_rate)
    return adamw(parameters, config.learning_rate, config.weight_decay)


def build_rate(config: TrainHeadsConfig) -> Rate:
    """Eden with scaled_adam (one epoch where hidden states are kept), else a cosine."""
    if config.optimiser is Optimiser.scaled_adam:
        epoch = config.sequences if config.train_trunk else None
        return eden_steps(warmup=config.warmup, batch_size=config.batch_size, sequences=epoch)
    return cosine(steps=config.steps, warmup=config.warmup)


def train_heads(
    config: TrainHeadsConfig, accelerator: Accelerator, track: Log = silent
) -> dict[str, Any]:
    """Train the heads of `config` into config.out, or go on; returns the dev figures.

    Raises ValueError when the folder holds another training, or the loss is not a number.
    """
    out, target = Path(config.out), Path(config.target.path)
    weights = target_hash(target)
    settings = settings_of(config, target=config.target.name, target_weights=weights)
    done = done_before(out / TRAINING, settings)
    if done is not None:
        logger.info("%s is complete; nothing to do", config.out)
        return done
    torch.manual_seed(config.seed)
    trunk = load_trunk(config.target)
    data = load_data(
        Path(config.codes),
        config.target,
        seed=config.seed,
        batch_size=STATE_BATCH,
        dev_utterances=config.dev_utterances,
    )
    training = HeadsTraining(config, trunk, data, accelerator)
    training.start(settings)
    training.run(track)
    if accelerator.is_main_process:
        about = {"settings": settings, **training.figures}
        if config.train_trunk:
            target = out / "target"
            trunk.export(target, settings)
        tensors = training.headed.heads.tensors(trunk.weight, trunk.bias, torch.float16)
        save_heads(out, tensors, target=target, about=about)
    training.end(training.figures)
    return training.figures
