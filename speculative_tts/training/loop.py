"""Run every training by one loop: resumable at any step, data parallel, keeping the best state.

A trainer is a `Training` with its own `batch`, and where it needs them `weight`, `ready`, `stepped`
and `evaluate`; the module it trains computes the loss of a batch. Randomness is keyed by
(seed, number of the batch): step s takes the batches from s G on, with G = accumulate x processes,
in the order of the processes. So a killed training resumed from its last state ends bit for bit (on
a CPU) where an undisturbed one ends; and two processes, or two accumulated batches, equal one batch
of twice the size.
"""

import contextlib
import copy
import dataclasses
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast
from torch import Tensor, nn

from speculative_tts.progress import progress
from speculative_tts.records import read_jsonl
from speculative_tts.training.devices import described, fewest
from speculative_tts.training.journal import METRICS, Log, journal, silent
from speculative_tts.training.pace import MEASURED, Pace, duration
from speculative_tts.training.schedule import Rate
from speculative_tts.training.state import (
    Best,
    State,
    begin,
    clear_states,
    copy_into,
    finish,
    fitted_before,
    load_state,
    save_state,
)

PREPARING = 0.25  # share of a budget of minutes for what comes before the first step
LEAST = 2  # times its warm-up: the shortest training that is fitted to minutes
Values = dict[str, Tensor]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingPlan:
    """Length of a training, and the intervals in steps of what also happens at the last one."""

    steps: int
    save_every: int
    eval_every: int
    log_every: int = 1
    accumulate: int = 1  # batches per process and step
    clip: float = 1.0  # largest norm of the gradient
    summed: bool = False  # use gradients of sums instead of weighted means
    seed: int = 0  # seed of dropout
    least: int = 1  # steps that a budget of minutes must hold


@dataclass(frozen=True)
class Learning:
    """The module to train, with its optimisers and learning rate.

    `module` turns a batch into the loss and values to log, all sums over what `Training.weight`
    counts. `optimizers` hold the base rates that `rate` scales.
    """

    module: nn.Module
    parameters: Mapping[str, nn.Parameter]
    optimizers: Sequence[torch.optim.Optimizer]
    rate: Rate


class Training:
    """One training in `folder`; `run` goes on from the newest state there."""

    selects: str | None = None  # figure by which the best parameters are chosen and kept
    unit = "batches"  # what `weight` counts

    def __init__(
        self, folder: Path, plan: TrainingPlan, learning: Learning, accelerator: Accelerator
    ) -> None:
        self.folder, self.plan, self.accelerator = folder, plan, accelerator
        self.parameters = dict(learning.parameters)
        self.module = learning.module.to(accelerator.device)
        self.step = 0  # steps done
        self.figures: dict[str, Any] = {}  # of the last evaluation
        self.best: Best | None = None
        self.fitted: dict[str, int] = {}  # numbers that were fitted to a budget of minutes
        self._pace = Pace(self.unit)
        self._wrapped: Callable[[Any], tuple[Tensor, Values]]
        self._wrapped = accelerator.prepare_model(self.module)
        self._optimizers, self._rate = learning.optimizers, learning.rate
        self._bases = [[g["lr"] for g in o.param_groups] for o in self._optimizers]

    def batch(self, step: int, number: int) -> Any:
        """Return batch `number`, counted over all steps and processes, on the device."""
        raise NotImplementedError

    def weight(self, batch: Any) -> float:  # noqa: ARG002 - of trainers that weigh batches
        """Return the number of terms in the module's sums; 1 if they are means already."""
        return 1.0

    def counts(self, batch: Any) -> dict[str, int]:  # noqa: ARG002 - of trainers that count
        """Return counts that the journal sums over a step's batches and all processes."""
        return {}

    def ready(self) -> None:
        """Prepare what the batches share; called before a process's first step."""

    def fit_data(self, seconds: float) -> dict[str, int]:  # noqa: ARG002 - of trainers that prepare
        """Return how much of its data a trainer can prepare in this time; empty if it is fixed."""
        return {}

    def stepped(self) -> None:
        """Change parameters after an optimiser step, if a trainer needs to."""

    def evaluate(self) -> dict[str, Any]:
        """Return figures for the journal, the same in every process; empty if there are none."""
        return {}

    def run(self, track: Log = silent) -> None:
        """Train up to `plan.steps`, evaluating and saving as the plan says."""
        state, main = load_state(self.folder), self.accelerator.is_main_process
        if state:
            self._restore(state)
        last = state.step if state else -1
        with contextlib.ExitStack() as stack:
            write = stack.enter_context(journal(self.folder, last, track)) if main else silent
            if state is None and self.selects:
                self._evaluate(write)
            self.ready()
            bar = progress(total=self.plan.steps, initial=self.step, unit="step", disable=not main)
            bar.set_description(" ".join(self.folder.parts[-2:]))
            stack.callback(bar.close)
            while self.step < self.plan.steps:
                with self._pace.step():
                    row = self.run_step()
                if self._pace.known and main and self.step < self.plan.steps:
                    logger.info("%s: %s", self.folder.parent, self._estimate())
                bar.update()
                bar.set_postfix(loss=f"{row['loss']:.3f}")
                if self._due(self.plan.log_every):
                    write({"step": self.step, **row})
                if self._due(self.plan.eval_every):
                    self._evaluate(write)
                if self._due(self.plan.save_every):
                    self._save()

    def run_step(self) -> dict[str, Any]:
        """Do one optimiser step on this process's batches; return its row of the journal."""
        accelerator, each = self.accelerator, self.plan.accumulate
        first = (self.step * accelerator.num_processes + accelerator.process_index) * each
        batches = [self.batch(self.step, first + index) for index in range(each)]
        total = float(self.over_all(torch.tensor(sum(map(self.weight, batches)))))
        self._pace.add(total)
        # Gradients are averaged over processes: turn that into the weighted mean over all batches.
        share = accelerator.num_processes / (1.0 if self.plan.summed else total)
        sums = []
        for index, batch in enumerate(batches):
            torch.manual_seed(self.plan.seed * 1_000_003 + first + index)
            sums.append(self._backward(batch, share, last=index == each - 1))
        row: dict[str, Any] = {
            name: (self.over_all(torch.stack([one[name] for one in sums])).sum(0) / total).tolist()
            for name in sums[0]
        }
        tallies = Counter[str]()
        for batch in batches:
            tallies.update(self.counts(batch))
        row |= {name: int(self.over_all(torch.tensor(n))) for name, n in tallies.items()}
        norm = float(accelerator.clip_grad_norm_(self.parameters.values(), self.plan.clip))
        if not math.isfinite(norm):
            raise ValueError(
                f"loss is {row['loss']}, its gradient {norm} at step {self.step + 1}; lower the "
                "learning rate, or look at the weights and codes that it began with"
            )
        row |= {"learning_rate": self._update(), "gradient_norm": norm}
        self.step += 1
        self.stepped()
        return row

    def _backward(self, batch: Any, share: float, *, last: bool) -> Values:
        """Add the gradients of a batch's loss times `share`; processes synchronise at the last."""
        accelerator = self.accelerator
        synchronised = contextlib.nullcontext() if last else accelerator.no_sync(self._wrapped)
        with synchronised:
            with accelerator.autocast():
                loss, values = self._wrapped(batch)
            accelerator.backward(loss * share)
        return {"loss": loss.detach()} | {name: value.detach() for name, value in values.items()}

    def _update(self) -> float:
        """Update the parameters; return the learning rate of the first group."""
        for optimizer, bases in zip(self._optimizers, self._bases, strict=True):
            for group, base in zip(optimizer.param_groups, bases, strict=True):
                group["lr"] = self._rate(base, self.step, self.plan.steps)
            optimizer.step()
            optimizer.zero_grad()
        return float(self._optimizers[0].param_groups[0]["lr"])

    def over_all(self, value: Tensor) -> Tensor:
        """Return the sum over processes, in double precision."""
        own = value.to(self.accelerator.device, torch.float64)
        total: Tensor = self.accelerator.reduce(own, "sum")
        return total

    def counted(self, name: str) -> int:
        """Sum one of `counts` over the journal's steps; 0 outside the main process."""
        if not self.accelerator.is_main_process:
            return 0
        rows = read_jsonl(self.folder / METRICS, "step")
        return sum(row.get(name, 0) for row in rows)

    def start(self, settings: Mapping[str, Any], minutes: float | None = None) -> dict[str, Any]:
        """Record and return the settings of the training that begins, fitted to `minutes` if given.

        What a process before fitted stays, so that a killed training ends where it would have.
        """
        if minutes is not None:
            self.fitted = fitted_before(self.folder) or self._fit(minutes)
            self.plan = dataclasses.replace(self.plan, steps=self.fitted["steps"])
        if self.accelerator.is_main_process:
            begin(self.folder, settings, self.fitted)
        return {**settings, **self.fitted}

    def _fit(self, minutes: float) -> dict[str, int]:
        """Return the numbers that fit into `minutes`; raise ValueError where steps are too few."""
        begun, seconds, plan = time.perf_counter(), 60 * minutes, self.plan
        least = min(plan.least, plan.steps)
        self.fitted = self.fit_data(PREPARING * seconds)
        self.ready()
        with self._pace.evaluating():
            self.evaluate()
        self._try_steps()
        spent = time.perf_counter() - begun
        fitting = self._pace.fitting(seconds - spent, plan.eval_every)
        steps = fewest(self.accelerator, min(fitting, plan.steps))
        each, before = f"{self._pace.each:.2g} s", duration(spent)
        if steps < least:
            needed = self._pace.needed(least, plan.eval_every)
            needed += max(0.0, spent - PREPARING * seconds)
            enough = math.ceil(needed / (1 - PREPARING) / 60)
            raise ValueError(
                f"minutes={minutes:g} hold {steps} steps of {each} after {before} of preparation, "
                f"fewer than {least}; give minutes={max(enough, int(minutes) + 1)} or a lower "
                "batch_size"
            )
        data = "".join(f" and {count} {name}" for name, count in self.fitted.items())
        line = f"{steps} steps{data} fit into {minutes:g} minutes, {before} of them gone, at {each}"
        logger.info("%s: %s a step on %s", self.folder.parent, line, described(self.accelerator))
        return {"steps": steps, **self.fitted}

    def _try_steps(self) -> None:
        """Do as many steps as are timed, and undo them."""
        values = {name: one.detach().clone() for name, one in self.parameters.items()}
        states = [copy.deepcopy(optimizer.state_dict()) for optimizer in self._optimizers]
        for _ in range(1 + MEASURED):
            with self._pace.step():
                self.run_step()
        self._restore(State(0, values, states, {}, None))

    def end(self, summary: Mapping[str, Any], *, keep: bool = False) -> None:
        """Record that the training's product is written; `keep` its state to extend it later."""
        if self.accelerator.is_main_process:
            finish(self.folder, summary)
            if not keep:
                clear_states(self.folder)
        self.accelerator.wait_for_everyone()

    def _estimate(self) -> str:
        """Return how long the rest will take, evaluations among it."""
        left, every = self.plan.steps - self.step, self.plan.eval_every
        return (
            f"{self._pace.estimate(left, math.ceil(left / every))} on {described(self.accelerator)}"
        )

    def _due(self, every: int) -> bool:
        return self.step % every == 0 or self.step == self.plan.steps

    def _evaluate(self, write: Log) -> None:
        with self._pace.evaluating():
            self.figures = self.evaluate()
        if self.figures:
            write({"step": self.step, **self.figures})
        if self.selects is None:
            return
        value = self.figures[self.selects]
        if self.best is None or value > self.best.value:
            self.best = Best(self.step, value, self.copies())

    def copies(self) -> dict[str, Tensor]:
        """Copy the trained parameters to the CPU, in the main process only."""
        if not self.accelerator.is_main_process:
            return {}
        return {n: p.detach().to("cpu", copy=True) for n, p in self.parameters.items()}

    def take_best(self) -> Best:
        """Give the module of every process the best parameters; return the best evaluation."""
        assert self.best is not None, "only a training that selects has a best evaluation"
        if self.accelerator.is_main_process:
            copy_into(self.parameters, self.best.parameters, "the best state")
        broadcast([parameter.detach() for parameter in self.parameters.values()])
        return self.best

    def _save(self) -> None:
        if self.accelerator.is_main_process:
            states = [optimizer.state_dict() for optimizer in self._optimizers]
            state = State(self.step, self.copies(), states, self.figures, self.best)
            save_state(self.folder, state)
        self.accelerator.wait_for_everyone()

    def _restore(self, state: State) -> None:
        named = f"the training state in {self.folder}"
        copy_into(self.parameters, state.parameters, named)
        for optimizer, saved in zip(self._optimizers, state.optimizers, strict=True):
            optimizer.load_state_dict(saved)
        self.step, self.figures, self.best = state.step, state.figures, state.best
        if self.best is not None and not self.accelerator.is_main_process:
            self.best = dataclasses.replace(self.best, parameters={})
