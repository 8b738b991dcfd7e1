"""One stage of a training run: steps, log and checkpoints, the same after a kill as without one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn
from tqdm import tqdm

from speculative_tts.files import write_atomic
from speculative_tts.training.target import Trainee, load_state, save_state

Losses = Callable[[int], tuple[Tensor, dict[str, Tensor]]]
"""step -> (loss to minimise, values to log); a pure function of the step and the weights."""

Watch = Callable[[], dict[str, float]]


@dataclass(frozen=True)
class StageConfig:
    """Length and learning rates of a stage."""

    steps: int
    warmup_steps: int = 40
    decay_steps: int = 800
    matrix_lr: float = 3e-3
    other_lr: float = 5e-3
    clip: float = 1.0
    save_every: int = 100
    log_every: int = 10
    watch_every: int = 400

    def rate(self, step: int) -> float:
        """Linear warm-up, constant, linear fall to 0 over the last `decay_steps`."""
        warm = min(1.0, (step + 1) / self.warmup_steps)
        return max(0.0, min(warm, (self.steps - step) / self.decay_steps))


def train_stage(
    name: str,
    trainee: Trainee,
    losses: Losses,
    config: StageConfig,
    out: Path,
    watch: Watch | None = None,
) -> None:
    """Train to `config.steps`; <out>/<name>-state.pt and <name>-metrics.jsonl are gone on with."""
    out.mkdir(parents=True, exist_ok=True)
    state, metrics = out / f"{name}-state.pt", out / f"{name}-metrics.jsonl"
    if state.exists():
        load_state(trainee, state)
    trim_log(metrics, trainee.step)
    trainee.model.train()
    with tqdm(total=config.steps, initial=trainee.step, desc=name, unit="step") as bar:
        while trainee.step < config.steps:
            values = stage_step(trainee, losses, config)
            bar.update()
            last = trainee.step == config.steps
            if last or trainee.step % config.log_every == 0:
                bar.set_postfix(loss=f"{values['loss']:.3f}")
                append(metrics, {"step": trainee.step, **values})
            if watch is not None and (last or trainee.step % config.watch_every == 0):
                append(metrics, {"step": trainee.step, **watch()})
            if last or trainee.step % config.save_every == 0:
                save_state(trainee, state)


def stage_step(trainee: Trainee, losses: Losses, config: StageConfig) -> dict[str, object]:
    """One optimiser step; returns what to log."""
    factor = config.rate(trainee.step)
    for optimiser, rate in zip(
        trainee.optimisers, (config.other_lr, config.matrix_lr), strict=True
    ):
        for group in optimiser.param_groups:
            group["lr"] = rate * factor
        optimiser.zero_grad(set_to_none=True)
    total, logged = losses(trainee.step)
    total.backward()  # type: ignore[no-untyped-call]
    parameters = [*trainee.model.parameters(), *trainee.probes.parameters()]
    norm = nn.utils.clip_grad_norm_(parameters, config.clip)
    for optimiser in trainee.optimisers:
        optimiser.step()
    trainee.step += 1
    return {k: v.detach().tolist() for k, v in {**logged, "gradient_norm": norm}.items()}


def append(path: Path, values: dict[str, object]) -> None:
    """One line of the log."""
    with path.open("a", encoding="utf-8") as log:
        log.write(json.dumps(values) + "\n")


def trim_log(path: Path, step: int) -> None:
    """Drop what a killed run logged after its last checkpoint."""
    if path.exists():
        lines = path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if json.loads(line)["step"] <= step]
        write_atomic(path, "".join(f"{line}\n" for line in kept))
