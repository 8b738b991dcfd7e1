"""Training loop of a draft: resumable, data parallel under torchrun, the best dev evaluation kept.

All randomness is keyed by (seed, sample number); there is no dropout. Step s consumes samples
s G to (s + 1) G - 1, with G = batch_size x accumulate x processes, in the order of the processes.
So a killed training that goes on from its last state ends bit for bit (on a CPU) where an
undisturbed one ends; two processes, or two batches added up, do what one of twice the size does.
"""

import contextlib
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import Tensor, nn
from tqdm import tqdm

from speculative_tts.schema import Selection, TrainDraftConfig
from speculative_tts.training.data.pairs import Data
from speculative_tts.training.data.recordings import IGNORED
from speculative_tts.training.evaluate import dev_figures
from speculative_tts.training.journal import Log, journal, silence
from speculative_tts.training.objective import Batch, Objective, Sampler
from speculative_tts.training.optimiser import Muon
from speculative_tts.training.state import Best, State, load_state, save_state

MAX_GRADIENT_NORM = 1.0
SHARDED = (DistributedType.FSDP, DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM)


def check_launch(accelerator: Accelerator) -> None:
    """Processes hold the whole draft each. ValueError when a launcher would shard it."""
    kind = accelerator.distributed_type
    if kind in SHARDED:
        raise ValueError(
            f"launched with {kind.value}, which shards the draft, so that shards would be saved; "
            "train data parallel: torchrun, or accelerate launch --multi_gpu"
        )


def freeze(model: nn.Module, trained: Sequence[str]) -> dict[str, nn.Parameter]:
    """Let only the parameters `trained` learn; returns them by name."""
    parameters = dict(model.named_parameters())
    for name, parameter in parameters.items():
        parameter.requires_grad_(name in trained)
    return {name: parameters[name] for name in trained}


def learning_rate(step: int, config: TrainDraftConfig) -> float:
    """Linear warm-up, then a cosine down to zero at the last step."""
    if step < config.warmup:
        return config.learning_rate * (step + 1) / config.warmup
    done = (step - config.warmup) / max(1, config.steps - config.warmup)
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def build_optimizers(
    parameters: dict[str, nn.Parameter], config: TrainDraftConfig
) -> list[torch.optim.Optimizer]:
    """AdamW, or with `muon` AdamW but for the layers' matrices; no weight decay on vectors."""
    groups: dict[str, list[nn.Parameter]] = {"layers": [], "tables": [], "vectors": []}
    for name, parameter in parameters.items():
        inside = "layers" if ".layers." in name else "tables"
        groups[inside if parameter.ndim > 1 else "vectors"].append(parameter)
    muon, decay = config.muon and groups["layers"], config.weight_decay
    adam = [
        {"params": groups["tables"] + ([] if muon else groups["layers"]), "weight_decay": decay},
        {"params": groups["vectors"], "weight_decay": 0.0},
    ]
    adam = [group for group in adam if group["params"]]
    optimizers: list[torch.optim.Optimizer] = []
    if adam:
        optimizers.append(torch.optim.AdamW(adam, lr=config.learning_rate, betas=(0.9, 0.95)))
    if muon:
        optimizers.append(Muon(groups["layers"], lr=config.learning_rate, weight_decay=decay))
    return optimizers


class DraftTraining:
    """One training in `folder`; `run` goes on from the newest state there."""

    def __init__(
        self,
        config: TrainDraftConfig,
        objective: Objective,
        trained: Sequence[str],
        data: Data,
        accelerator: Accelerator,
        folder: Path,
        sampler: Sampler | None = None,
    ) -> None:
        self._config, self._data, self._folder = config, data, folder
        self._accelerator, self._sampler = accelerator, sampler
        self._parameters = freeze(objective.draft, trained)
        self._objective = objective.to(accelerator.device).eval()
        self._wrapped = accelerator.prepare_model(objective)
        self._optimizers = build_optimizers(self._parameters, config)

    def run(self, log: Log | None = None) -> Best:
        """Train up to `config.steps`; returns the best dev evaluation and its parameters."""
        state = load_state(self._folder)
        if state:
            self._restore(state)
        main = self._accelerator.is_main_process
        last = state.step if state else -1
        with journal(self._folder, last, log) if main else silence() as write:
            best = state.best if state else self._evaluate(0, None, write)
            return self._steps(state.step if state else 0, best, write)

    def _steps(self, first: int, best: Best, write: Log) -> Best:
        config, main = self._config, self._accelerator.is_main_process
        bar = tqdm(total=config.steps, initial=first, unit="step", disable=None if main else True)
        for step in range(first, config.steps):
            loss, done = self._step(step), step + 1
            write({"step": done, "loss": loss, "learning_rate": learning_rate(step, config)})
            if done % config.eval_every == 0 or done == config.steps:
                best = self._evaluate(done, best, write)
            if done % config.save_every == 0 or done == config.steps:
                self._save(done, best)
            bar.update()
            bar.set_postfix(loss=f"{loss:.3f}", best=f"{best.value:.4f}")
        bar.close()
        return best

    def _step(self, step: int) -> float:
        """One optimizer step on this process's samples; mean loss over all processes (nats)."""
        config, accelerator = self._config, self._accelerator
        own, size = step * accelerator.num_processes + accelerator.process_index, config.batch_size
        starts = [size * (own * config.accumulate + part) for part in range(config.accumulate)]
        batches = [self._data.batch(range(start, start + size)) for start in starts]
        learnt = sum(int((batch.targets != IGNORED).sum()) for batch in batches)
        count = self._over_all(learnt)
        for group in (g for optimizer in self._optimizers for g in optimizer.param_groups):
            group["lr"] = learning_rate(step, config)
        # Gradients are averaged over processes: make that the mean over all positions.
        share = accelerator.num_processes / count
        loss = self._over_all(sum(self._backward(b, share, b is batches[-1]) for b in batches))
        if not math.isfinite(loss):
            raise ValueError(
                f"loss is {loss} at step {step + 1}; lower learning_rate and start again"
            )
        accelerator.clip_grad_norm_(self._parameters.values(), MAX_GRADIENT_NORM)
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return loss / count

    def _backward(self, batch: Batch, share: float, last: bool) -> float:
        """Add a batch's gradients, its loss times `share`; its loss. Processes meet at the last."""
        accelerator, moved = self._accelerator, batch.to(self._accelerator.device)
        waits = contextlib.nullcontext() if last else accelerator.no_sync(self._wrapped)
        with waits:
            with accelerator.autocast():
                loss: Tensor = self._wrapped(moved.inputs, moved.targets)["loss"]
            accelerator.backward(loss * share)
        return float(loss.detach())

    def _over_all(self, value: float) -> float:
        """The sum over processes."""
        own = torch.tensor(value, dtype=torch.float64, device=self._accelerator.device)
        return float(self._accelerator.reduce(own, "sum"))

    def _evaluate(self, step: int, best: Best | None, write: Log) -> Best:
        figures = dev_figures(self._objective, self._data.dev, self._accelerator, self._sampler)
        write({"step": step, **figures})
        by_acceptance = self._config.select is Selection.acceptance
        value = figures["dev_acceptance" if by_acceptance else "dev_accuracy"]
        if best is not None and value <= best.value:
            return best
        return Best(step, value, self._trained())

    def _trained(self) -> dict[str, Tensor]:
        return {name: p.detach().to("cpu", copy=True) for name, p in self._parameters.items()}

    def _save(self, step: int, best: Best) -> None:
        if self._accelerator.is_main_process:
            optimizers = [optimizer.state_dict() for optimizer in self._optimizers]
            save_state(self._folder, State(step, self._trained(), optimizers, best))
        self._accelerator.wait_for_everyone()

    def _restore(self, state: State) -> None:
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(state.parameters[name])
        for optimizer, saved in zip(self._optimizers, state.optimizers, strict=True):
            optimizer.load_state_dict(saved)
