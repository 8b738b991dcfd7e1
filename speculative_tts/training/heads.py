"""Train multi-token heads: n linear heads (or Medusa's blocks) on a target's hidden states.

The loss is the sum of the heads' cross entropies (Nguyen et al., 2025, eq. 3): head i predicts the
token i places after the next one, and the stop id after the end. On a frozen trunk the hidden
states are computed once and kept in memory (half precision), and heads are trained on minibatches
of them; the target's own head is head 0 and stays as it is. `training.joint` instead trains the
trunk and its head with them.
"""

import dataclasses
import logging
import time
from collections.abc import Iterable
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from jaxtyping import Int
from torch import Tensor

from speculative_tts.assets import require
from speculative_tts.models.families.registry import load_layout
from speculative_tts.models.heads import target_hash
from speculative_tts.progress import progress
from speculative_tts.schema.common import DType
from speculative_tts.schema.train import (
    CodesFrom,
    HeadKind,
    LossConfig,
    Optimiser,
    TrainHeadsConfig,
)
from speculative_tts.training.codebooks import CodebookTrunk, codebook_trunk
from speculative_tts.training.data.pairs import LOST, Data, SequenceBatch, load_data
from speculative_tts.training.devices import fewest
from speculative_tts.training.draft import recompute_activations, speech_sampler, temperature_of
from speculative_tts.training.headed import HeadedTrunk, States, mean_figures
from speculative_tts.training.joint import build_optimizers, train_jointly
from speculative_tts.training.journal import Log, silent
from speculative_tts.training.loop import LEAST, Learning, Training, TrainingPlan
from speculative_tts.training.losses import check_weights, mix
from speculative_tts.training.objective import warn_of_other_codes
from speculative_tts.training.recurrent import (
    WIDTH,
    RecurrentTrunk,
    StepLosses,
    TrainableRecurrence,
)
from speculative_tts.training.schedule import cosine, eden_steps
from speculative_tts.training.state import TRAINING, done_before, settings_of
from speculative_tts.training.trunk import load_trunk

STATE_BATCH = 16  # sequences run through a frozen trunk at once
DEV_POSITIONS = 4096  # evaluated at once

logger = logging.getLogger(__name__)
Predictor = HeadedTrunk | RecurrentTrunk | CodebookTrunk


class HeadsTraining(Training):
    """Train heads on positions drawn from the stored hidden states of a frozen trunk."""

    unit = "positions"

    def __init__(
        self, config: TrainHeadsConfig, headed: Predictor, data: Data, accelerator: Accelerator
    ) -> None:
        parameters = {n: p for n, p in headed.named_parameters() if p.requires_grad}
        optimizers = build_optimizers(list(parameters.values()), config)
        eden = config.optimiser is Optimiser.scaled_adam
        rate = eden_steps if eden else cosine
        learning = Learning(
            headed.train(mode=False), parameters, optimizers, rate(warmup=config.warmup)
        )
        plan = TrainingPlan(
            config.steps,
            config.save_every,
            config.eval_every,
            accumulate=config.accumulate,
            clip=float(config.n - 1),
            least=LEAST * max(1, config.warmup),
        )
        super().__init__(Path(config.out) / TRAINING, plan, learning, accelerator)
        self.headed, self._config, self._data = headed, config, data

    def fit_data(self, seconds: float) -> dict[str, int]:
        """Return how many sequences' hidden states take so long, by the time that dev's take."""
        begun, count = time.perf_counter(), sum(len(batch.inputs) for batch in self._data.dev)
        _ = self._dev_states
        fitting = int(seconds * count / (time.perf_counter() - begun))
        sequences = min(self._config.sequences, max(1, fitting))
        return {"sequences": fewest(self.accelerator, sequences)}

    def ready(self) -> None:
        """Compute the hidden states of all utterances."""
        _ = self._states

    def batch(self, step: int, number: int) -> States:  # noqa: ARG002 - nothing changes
        """Return random positions, a function of (seed, number)."""
        generator = torch.Generator().manual_seed(self._config.seed * 1_000_003 + number)
        states, size = self._states, self._config.batch_size
        chosen = torch.randint(len(states), (min(size, len(states)),), generator=generator)
        return states.at(chosen, self.headed.ahead)

    def weight(self, batch: States) -> float:
        """Return the number of positions."""
        return len(batch)

    def evaluate(self) -> dict[str, Any]:
        """Return the sum of the parts' losses, and each part's accuracy."""
        states, headed = self._dev_states, self.headed
        spans = (slice(b, b + DEV_POSITIONS) for b in range(0, len(states), DEV_POSITIONS))
        with self.accelerator.autocast():
            parts = [headed.dev_sums(states.at(span, headed.ahead)) for span in spans]
        return mean_figures(torch.stack(parts).sum(0))

    @property
    def next_tokens(self) -> Int[Tensor, " positions"]:
        """The token that follows at each training position."""
        return self._states.targets[:, 0].long()

    @cached_property
    def _states(self) -> States:
        count = self.fitted.get("sequences", self._config.sequences)
        numbers = (range(s, min(s + STATE_BATCH, count)) for s in range(0, count, STATE_BATCH))
        return self._collect(map(self._data.batch, numbers), -(-count // STATE_BATCH))

    @cached_property
    def _dev_states(self) -> States:
        return self._collect(self._data.dev, len(self._data.dev))

    @torch.no_grad()
    def _collect(self, batches: Iterable[SequenceBatch], total: int) -> States:
        """Compute hidden states of every speech position (float16), with their targets (int32)."""
        hidden, targets, cut = [], [], 0
        for batch in progress(
            batches, total=total, desc="hidden states", unit="batch", disable=None
        ):
            states = self.headed.states(batch.to(self.accelerator.device))
            hidden.append(states.hidden.half())
            targets.append(states.targets.int())
            cut += batch.cut
        if cut:
            logger.warning("%d sequences %s", cut, LOST)
        return States(torch.cat(hidden), torch.cat(targets))


def train_heads(
    config: TrainHeadsConfig, accelerator: Accelerator, track: Log = silent
) -> dict[str, Any]:
    """Train the heads of `config` into config.out, or resume; return the dev figures.

    Raise ValueError when the folder holds another training, or the loss is not a number.
    """
    out, target = Path(config.out), require(Path(config.target.path))
    begun = {} if config.init is None else {"init": target_hash(Path(config.init))}
    settings = settings_of(
        config,
        target=config.target.name,
        target_weights=target_hash(target),
        processes=accelerator.num_processes,
        **begun,
    )
    done = done_before(out / TRAINING, settings)
    if done is not None:
        logger.info("%s is complete; nothing to do", config.out)
        return done
    torch.manual_seed(config.seed)
    headed = _build_predictor(config)
    if config.init is not None:
        headed.go_on(Path(config.init), target)
    trainings, figures = (
        train_jointly(config, headed, accelerator, settings, track)
        if config.train_trunk and isinstance(headed, HeadedTrunk)
        else _train_frozen(config, headed, accelerator, settings, track)
    )
    settings |= trainings[0].fitted
    if accelerator.is_main_process:
        about = {"settings": settings, **figures}
        if config.train_trunk and isinstance(headed, HeadedTrunk):
            target = Path(config.target_out or out / "target")
            headed.trunk.export(target, settings)
        headed.save(out, target, about)
    for training in trainings:  # the first one's mark says that all is done
        training.end(figures)
    return figures


def _build_predictor(config: TrainHeadsConfig) -> Predictor:
    """Build the module to train; raise ValueError for settings of another kind."""
    if config.kind is HeadKind.codebooks:
        return codebook_trunk(config)
    dtype = DType.float32 if config.train_trunk or config.dtype is None else config.dtype
    trunk = load_trunk(config.target, getattr(torch, dtype.value))
    n, weights = config.n, dataclasses.asdict(config.losses)
    if config.kind is not HeadKind.recurrent:
        own = config.losses != LossConfig(), config.width is not None, config.blocks > 1
        if config.own_drafts or any(own):
            raise ValueError(
                "losses, width, blocks and own_drafts are of kind=recurrent, this is "
                f"kind={config.kind.name}; leave them out"
            )
        if config.optimiser is Optimiser.muon:
            raise ValueError(
                f"optimiser=muon is of kind=recurrent, this is kind={config.kind.name}; "
                "give adamw or scaled_adam"
            )
        if config.gradient_checkpointing and config.train_trunk:
            recompute_activations(trunk.transformer)
        return HeadedTrunk(
            trunk,
            n,
            config.kind,
            train_trunk=config.train_trunk,
            recompute=config.gradient_checkpointing,
        )
    if config.train_trunk:
        raise ValueError("kind=recurrent is trained on a frozen trunk; leave train_trunk out")
    if config.own_drafts and config.codes_from is not CodesFrom.target:
        raise ValueError(
            "own_drafts=true weighs tokens that the target drew, this is "
            f"codes_from={config.codes_from.name}; give codes_from=target"
        )
    check_weights(weights)
    layout = load_layout(config.target)
    hidden, blocks = trunk.embedding.shape[1], config.blocks  # raises where there is none
    layer = TrainableRecurrence(hidden, config.width or WIDTH * hidden // blocks, blocks)
    loss = partial(mix, weights, temperature=temperature_of(layout))
    sampler = speech_sampler(layout)
    return RecurrentTrunk(
        trunk,
        n,
        layer,
        StepLosses(loss, sampler, config.own_drafts),
        recompute=config.gradient_checkpointing,
    )


def _train_frozen(
    config: TrainHeadsConfig,
    headed: Predictor,
    accelerator: Accelerator,
    settings: dict[str, Any],
    track: Log,
) -> tuple[list[Training], dict[str, Any]]:
    """Train heads on a frozen trunk; return the training and its last figures."""
    data = load_data(config, STATE_BATCH)
    headed.to(accelerator.device)
    if accelerator.is_main_process and not isinstance(headed, CodebookTrunk):
        _check_codes(headed, data.dev[0].to(accelerator.device))
    training = HeadsTraining(config, headed, data, accelerator)
    training.start(settings, config.minutes)
    training.run(track)
    if isinstance(headed, RecurrentTrunk):
        headed.count(training.next_tokens)
    return [training], {**training.fitted, **training.figures}


@torch.no_grad()
def _check_codes(headed: HeadedTrunk | RecurrentTrunk, batch: SequenceBatch) -> None:
    """Warn if the codes seem to be another codec's."""
    states = headed.states(batch)
    warn_of_other_codes(headed.trunk.own(states.hidden), states.targets[:, 0])
