"""Train a trunk together with its heads, and a VALL-E's NAR, on batches of bounded length.

With `optimiser=scaled_adam` this is the public VALL-E recipe that Nguyen et al. (2025) name:
gradients of sums, clipped by ScaledAdam only, Eden, dropout as the checkpoint says, each
utterance without a voice prompt. Heads and trunk learn the sum of all heads' cross entropies. The
parameters of the best dev loss are kept.
"""

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic

import torch
import torch.nn.functional as F  # noqa: N812
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs
from torch import Tensor, nn

from speculative_tts.models.families.valle.nar import LONGEST_PREFIX, ValleNAR, draw_prefix
from speculative_tts.schema.train import Optimiser, TrainHeadsConfig
from speculative_tts.training.data.pairs import CUT, IGNORED, LOST, SequenceBatch
from speculative_tts.training.data.splits import (
    AnyBatch,
    LayeredBatch,
    Splits,
    ar_splits,
    nar_splits,
)
from speculative_tts.training.headed import HeadedTrunk, mean_figures
from speculative_tts.training.journal import Log
from speculative_tts.training.loop import LEAST, Learning, Training, TrainingPlan, Values
from speculative_tts.training.optimiser import Muon, adamw
from speculative_tts.training.scaled_adam import ScaledAdam
from speculative_tts.training.schedule import Rate, cosine, eden_steps
from speculative_tts.training.state import TRAINING

NAR = "nar"  # the folder of its training, inside the AR's
USLM_PREFIX = 150  # frames of an acoustic prompt at most, in USLM's code

logger = logging.getLogger(__name__)


class BoundedTraining(Training, Generic[AnyBatch]):
    """Base of AR and NAR training: epochs, the recipe, selection on all dev batches."""

    selects = "dev_log_likelihood"

    def __init__(
        self,
        folder: Path,
        config: TrainHeadsConfig,
        module: nn.Module,
        splits: Splits[AnyBatch],
        accelerator: Accelerator,
        epochs: float | None,
    ) -> None:
        joint, epoch = config.joint, len(splits.train)
        steps, together = config.steps, joint.accumulate * accelerator.num_processes
        if epochs is not None:
            steps = math.ceil(epochs * epoch / together)
        published = config.optimiser is Optimiser.scaled_adam
        rate: Rate = cosine(warmup=config.warmup)
        if published:
            rate = eden_steps(
                warmup=config.warmup,
                accumulate=joint.accumulate,
                processes=accelerator.num_processes,
                epoch=epoch,
            )
        parameters = {n: p for n, p in module.named_parameters() if p.requires_grad}
        optimizers = build_optimizers(list(parameters.values()), config)
        plan = TrainingPlan(
            steps,
            config.save_every,
            config.eval_every,
            accumulate=joint.accumulate,
            clip=math.inf if published else float(config.n),
            summed=published,
            seed=config.seed,
            least=LEAST * max(1, config.warmup),
        )
        learning = Learning(module.train(), parameters, optimizers, rate)
        super().__init__(folder, plan, learning, accelerator)
        self.splits: Splits[AnyBatch] = splits

    def batch(self, step: int, number: int) -> Any:  # noqa: ARG002 - nothing changes
        """Return batch `number`, on the training's device."""
        return self.splits.train[number].to(self.accelerator.device)

    @torch.no_grad()
    def evaluate(self) -> dict[str, Any]:
        """Return the figures over all dev batches, which are split over the processes."""
        accelerator = self.accelerator
        own = range(accelerator.process_index, len(self.splits.dev), accelerator.num_processes)
        self.module.eval()
        sums = torch.zeros(self.parts, 3, dtype=torch.float64)
        for number in own:
            with accelerator.autocast():
                sums += self.dev_sums(self.splits.dev[number].to(accelerator.device), number)
        self.module.train()
        figures = mean_figures(self.over_all(sums).cpu())
        return figures | {"dev_log_likelihood": -figures["dev_loss"]}

    @property
    def parts(self) -> int:
        """Number of heads or stages."""
        raise NotImplementedError

    def dev_sums(self, batch: AnyBatch, number: int) -> Tensor:
        """Return nats, right codes and positions of each part: float64 [parts, 3]."""
        raise NotImplementedError


class JointTraining(BoundedTraining[SequenceBatch]):
    """Train a trunk with its heads."""

    unit = "tokens"

    def __init__(
        self,
        config: TrainHeadsConfig,
        headed: HeadedTrunk,
        splits: Splits[SequenceBatch],
        accelerator: Accelerator,
    ) -> None:
        folder, epochs = Path(config.out) / TRAINING, config.joint.epochs
        super().__init__(folder, config, headed, splits, accelerator, epochs)
        self._headed = headed

    def weight(self, batch: SequenceBatch) -> float:
        """Return the number of speech positions."""
        return int((batch.targets != IGNORED).sum())

    def counts(self, batch: SequenceBatch) -> dict[str, int]:
        """Return how many sequences lost their end."""
        return {CUT: batch.cut}

    @property
    def parts(self) -> int:
        """Number of heads, the target's own among them."""
        return self._headed.n

    def dev_sums(self, batch: SequenceBatch, number: int) -> Tensor:  # noqa: ARG002 - nothing is drawn
        """Return nats, right codes and positions of each head."""
        return self._headed.dev_sums(self._headed.states(batch))


class SummedNAR(nn.Module):
    """The loss of a NAR over some of its stages, with the first `prefix` frames given."""

    def __init__(self, nar: ValleNAR) -> None:
        super().__init__()
        self.nar = nar

    def forward(self, batch: tuple[LayeredBatch, list[int], int]) -> tuple[Tensor, Values]:
        """Return the sum over stages and frames (nats), scaled as in the official code."""
        layered, stages, prefix = batch
        inputs = vars(layered).values()
        return torch.stack([self.nar(*inputs, stage, prefix).loss() for stage in stages]).sum(), {}


class JointNARTraining(BoundedTraining[LayeredBatch]):
    """Train the NAR that belongs to an AR: one stage per step, or two as USLM does."""

    def __init__(
        self,
        config: TrainHeadsConfig,
        nar: ValleNAR,
        splits: Splits[LayeredBatch],
        accelerator: Accelerator,
    ) -> None:
        if nar.config.prefix_mode not in (0, 1):
            raise ValueError(
                f"the target has prefix_mode {nar.config.prefix_mode}; NARs are trained in the "
                "modes 0 and 1: import it with one of them, or leave it with joint.nar_epochs=0"
            )
        # the heads and embeddings of stages that are not drawn take no part in a step
        accelerator.ddp_handler = DistributedDataParallelKwargs(find_unused_parameters=True)
        folder, epochs = Path(config.out) / TRAINING / NAR, config.joint.nar_epochs
        super().__init__(folder, config, SummedNAR(nar), splits, accelerator, epochs)
        self._nar, self._config = nar, config

    def batch(self, step: int, number: int) -> tuple[LayeredBatch, list[int], int]:
        """Return utterances, the stages to train, and how many frames are given."""
        batch: LayeredBatch = super().batch(step, number)
        generator = torch.Generator().manual_seed(self._config.seed * 1_000_003 + number)
        second = self._config.joint.second_layer and self.parts > 1
        drawn = int(torch.randint(1 + second, self.parts + 1, (), generator=generator))
        return batch, [1, drawn] if second else [drawn], self._prefix(batch, generator)

    def weight(self, batch: tuple[LayeredBatch, list[int], int]) -> float:
        """Return the number of frames."""
        return int(batch[0].code_lengths.sum())

    @property
    def parts(self) -> int:
        """Number of stages: one per layer but the first."""
        return self._nar.config.quantizers - 1

    def dev_sums(self, batch: LayeredBatch, number: int) -> Tensor:
        """Return each stage's sums, after a prompt whose length depends on the batch's number."""
        prefix = self._prefix(batch, torch.Generator().manual_seed(number))
        sums = []
        for stage in range(1, self.parts + 1):
            predicted = self._nar(*vars(batch).values(), stage, prefix)
            logits, wanted = predicted.logits.float(), predicted.targets
            end = logits.shape[-1]
            nats = F.cross_entropy(logits.mT, wanted, ignore_index=end, reduction="sum")
            right, known = (logits.argmax(-1) == wanted).sum(), (wanted != end).sum()
            sums.append(torch.stack([nats, right, known]))
        return torch.stack(sums).double().cpu()

    def _prefix(self, batch: LayeredBatch, generator: torch.Generator) -> int:
        """Draw the prompt's frames for the checkpoint's prefix mode; mode 0 has no prompt."""
        if self._nar.config.prefix_mode == 0:
            return 0
        longest = USLM_PREFIX if self._config.joint.second_layer else LONGEST_PREFIX
        return draw_prefix(batch.code_lengths, generator, longest)


def build_optimizers(
    parameters: Sequence[nn.Parameter], config: TrainHeadsConfig
) -> list[torch.optim.Optimizer]:
    """Return AdamW, ScaledAdam (the paper's settings), or AdamW for vectors, Muon for matrices."""
    rate, decay = config.learning_rate, config.weight_decay
    if config.optimiser is Optimiser.scaled_adam:
        return [ScaledAdam(parameters, lr=rate)]
    if config.optimiser is Optimiser.adamw:
        return [adamw(parameters, rate, decay)]
    matrices, vectors = ([p for p in parameters if (p.ndim > 1) is wide] for wide in (True, False))
    return [adamw(vectors, rate, 0.0), Muon(matrices, rate, weight_decay=decay)]


def train_jointly(
    config: TrainHeadsConfig,
    headed: HeadedTrunk,
    accelerator: Accelerator,
    settings: dict[str, Any],
    track: Log,
) -> tuple[list[Training], dict[str, Any]]:
    """Train trunk and heads, then the NAR if asked; return the trainings and best dev figures."""
    trunk = headed.trunk
    if config.joint.nar_epochs and trunk.nar is None:
        raise ValueError(f"{config.target.path} has no NAR; leave joint.nar_epochs out")
    if any(isinstance(part, nn.BatchNorm1d) for part in trunk.model.modules()):
        raise ValueError(
            f"{config.target.path} has prenets, whose batch norms are not trained here; "
            "train heads on it as it is (train_trunk=false)"
        )
    nar = trunk.nar if config.joint.nar_epochs else None
    # opened before the AR's hours, so that codes a NAR cannot learn from are reported at once
    layered = None if nar is None else nar_splits(config, nar.config.quantizers)
    training = JointTraining(config, headed, ar_splits(config), accelerator)
    training.start(settings, config.minutes)
    figures = _run_and_take_best(training, track)
    if cut := training.counted(CUT):
        logger.warning("%d training sequences %s", cut, LOST)
        figures[CUT] = cut
    if nar is None or layered is None:
        return [training], figures
    second = JointNARTraining(config, nar, layered, accelerator)
    steps = training.plan.steps
    own = _run_and_take_best(second, lambda row: track({**row, "step": steps + row["step"]}))
    return [training, second], figures | {f"nar_{name}": value for name, value in own.items()}


def _run_and_take_best(training: BoundedTraining[Any], track: Log) -> dict[str, Any]:
    """Train, and give the module the parameters of the best dev loss; return the figures."""
    left_out = training.splits.train.buckets.left_out
    training.run(track)
    best = training.take_best()
    return {
        "steps": training.plan.steps,
        "best_step": best.step,
        "left_out": left_out,
        **training.evaluate(),
    }
