"""Make a layer-inherited draft: inherit, train, select, export; an interrupted run is resumed."""

import dataclasses
import logging
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from speculative_tts.decoding.sampling.sampler import Sampler as LogitsSampler
from speculative_tts.decoding.sampling.sampler import StopRule
from speculative_tts.models.families.registry import load_layout
from speculative_tts.models.speech_lm import Layout
from speculative_tts.schema.train import CodesFrom, TrainDraftConfig
from speculative_tts.training.checkpoint import (
    TargetCheckpoint,
    build_model,
    read_checkpoint,
    refuse_talker,
    source_hash,
    write_draft,
)
from speculative_tts.training.data.pairs import CUT, IGNORED, LOST, Data, SequenceBatch, load_data
from speculative_tts.training.inherit import Inherited, inherit
from speculative_tts.training.journal import Log, silent
from speculative_tts.training.loop import LEAST, Learning, Training, TrainingPlan
from speculative_tts.training.losses import (
    check_weights,
    needs_target,
    tv,
)
from speculative_tts.training.objective import (
    Objective,
    Sampler,
    expected_acceptance,
    speech_logits,
    warn_of_other_codes,
)
from speculative_tts.training.optimiser import Muon, adamw
from speculative_tts.training.schedule import cosine
from speculative_tts.training.state import TRAINING, copy_into, done_before, settings_of

MAX_DISTANCE = 0.2  # total variation: 8-bit weights move distributions by less than 0.1
SAMPLING = ("temperature", "top_k", "top_p")  # read from the checkpoint; an absent one is off

logger = logging.getLogger(__name__)


class DraftTraining(Training):
    """Train the draft of an objective; the parameters of the best dev evaluation are kept.

    Batches are weighted by their speech positions. `sampler` is the target's.
    """

    unit = "tokens"

    def __init__(
        self,
        config: TrainDraftConfig,
        objective: Objective,
        trained: list[str],
        data: Data,
        accelerator: Accelerator,
        sampler: Sampler,
    ) -> None:
        parameters = freeze(objective.draft, trained)
        objective.train(mode=False)
        if config.gradient_checkpointing:
            recompute_activations(objective.draft)
        rate = cosine(warmup=config.warmup)
        learning = Learning(objective, parameters, build_optimizers(parameters, config), rate)
        plan = TrainingPlan(
            config.steps,
            config.save_every,
            config.eval_every,
            accumulate=config.accumulate,
            least=LEAST * max(1, config.warmup),
        )
        super().__init__(Path(config.out) / TRAINING, plan, learning, accelerator)
        self.objective, self._data, self._sampler = objective, data, sampler
        self._size, self._first = config.batch_size, config.first_sequence
        self.selects = f"dev_{config.select.name}"

    def batch(self, step: int, number: int) -> SequenceBatch:  # noqa: ARG002 - the data is the same throughout
        """Return the `number`-th batch of samples after the skipped `first_sequence` ones."""
        begin = self._first + number * self._size
        numbers = range(begin, begin + self._size)
        return self._data.batch(numbers).to(self.accelerator.device)

    def weight(self, batch: SequenceBatch) -> float:
        """Return the number of speech positions."""
        return int((batch.targets != IGNORED).sum())

    def counts(self, batch: SequenceBatch) -> dict[str, int]:
        """Return how many sequences lost their end."""
        return {CUT: batch.cut}

    def evaluate(self) -> dict[str, Any]:
        """Return the dev figures, with expected acceptance (needs the target) if it selects."""
        return self.dev_figures(acceptance=self.selects == "dev_acceptance")

    @torch.no_grad()
    def dev_figures(self, *, acceptance: bool) -> dict[str, float]:
        """Return mean loss (nats), token accuracy and, with `acceptance`, expected acceptance.

        The batches are split over the processes; every process gets the same figures.
        """
        accelerator, objective = self.accelerator, self.objective
        sums = torch.zeros(4, dtype=torch.float64)
        for batch in self._data.dev[accelerator.process_index :: accelerator.num_processes]:
            here, accepted = batch.to(accelerator.device), 0.0
            with accelerator.autocast():
                loss, values = objective(here)
                if acceptance:
                    models = (objective.target, objective.draft)
                    accepted, _ = expected_acceptance(*models, here, self._sampler)
            right, count = float(values["accuracy"]), self.weight(here)
            sums += torch.tensor([float(loss), right, accepted, count], dtype=torch.float64)
        loss, right, accepted, count = self.over_all(sums).tolist()
        figures = {"dev_loss": loss / count, "dev_accuracy": right / count}
        return figures | {"dev_acceptance": accepted / count} if acceptance else figures


def freeze(model: nn.Module, trained: list[str]) -> dict[str, nn.Parameter]:
    """Freeze all parameters but `trained`; return those by name."""
    parameters = dict(model.named_parameters())
    for name, parameter in parameters.items():
        parameter.requires_grad_(name in trained)
    return {name: parameters[name] for name in trained}


def recompute_activations(model: Any) -> None:
    """Keep only the layers' inputs; transformers does so in training mode (there is no dropout)."""
    # older versions of transformers have only the second name, newer ones deprecate it
    newer = getattr(model, "activation_checkpointing_enable", None)
    (newer or model.gradient_checkpointing_enable)({"use_reentrant": False})
    model.train()


def build_optimizers(
    parameters: dict[str, nn.Parameter], config: TrainDraftConfig
) -> list[torch.optim.Optimizer]:
    """Return AdamW, plus Muon for the layers' matrices if `muon`; vectors have no weight decay."""
    groups: dict[str, list[nn.Parameter]] = {"layers": [], "tables": [], "vectors": []}
    for name, parameter in parameters.items():
        inside = "layers" if ".layers." in name else "tables"
        groups[inside if parameter.ndim > 1 else "vectors"].append(parameter)
    muon, rate, decay = config.muon and groups["layers"], config.learning_rate, config.weight_decay
    adam = [
        {"params": groups["tables"] + ([] if muon else groups["layers"]), "weight_decay": decay},
        {"params": groups["vectors"], "weight_decay": 0.0},
    ]
    adam = [group for group in adam if group["params"]]
    optimizers = [adamw(adam, rate, decay)] if adam else []
    return [*optimizers, Muon(groups["layers"], rate, weight_decay=decay)] if muon else optimizers


def sampler_of(layout: Layout) -> Sampler:
    """Return the target's sampler for a head's logits [n, vocab], cut to speech rows."""
    order = layout.order(text_rows=bool(layout.sampling.get("text_rows")))
    sampler = speech_sampler(layout)
    return lambda logits: sampler(logits[..., order.to(logits.device)])


def speech_sampler(layout: Layout, stop_ids: tuple[int, ...] | None = None) -> Sampler:
    """Return the target's sampler for logits [n, speech ids]; it may stop at any position.

    `stop_ids` are the layout's, unless the logits are of other ids.
    """
    stops = layout.stop_ids if stop_ids is None else stop_ids
    named = {name: layout.sampling[name] for name in SAMPLING if name in layout.sampling}
    sampler = LogitsSampler(**named)  # type: ignore[arg-type] # numbers of a JSON file

    def probabilities(logits: Tensor) -> Tensor:
        none = torch.zeros(1, len(logits), dtype=torch.int64, device=logits.device)
        stop = StopRule.build(stops, logits.shape[-1], [0], logits.device)
        return sampler(logits[None], none, none, stop)[0]

    return probabilities


def temperature_of(layout: Layout) -> float:
    """Return the temperature at which distributions are compared."""
    return layout.sampling.get("temperature") or 1.0


def _weights(config: TrainDraftConfig) -> dict[str, float]:
    """Return the losses' weights; raise ValueError for settings that do not belong together."""
    weights = dataclasses.asdict(config.losses)
    check_weights(weights)
    if config.laws and config.codes_from is CodesFrom.recorded:
        raise ValueError("codes_from=recorded has no laws; give codes_from=target, or laws=false")
    if config.laws and not needs_target(weights):
        raise ValueError("losses.ce reads no laws; give losses.kl=1 losses.ce=0, or laws=false")
    return weights


def make_draft(
    config: TrainDraftConfig, accelerator: Accelerator, track: Log = silent
) -> dict[str, Any]:
    """Train the draft of `config` into `config.out`, or resume it; return its summary.

    Dev acceptance and the distillation losses use the target's own sampler.
    """
    weights = _weights(config)
    refuse_talker(load_layout(config.target), Path(config.target.path))
    source = TargetCheckpoint.read(Path(config.target.path))
    inherited = inherit(source.config, source.tensors, config)
    folder = Path(config.out) / TRAINING
    settings = _settings(config, source.digest, accelerator.num_processes)
    done = done_before(folder, settings)
    if done is not None:
        logger.info("%s is complete; nothing to do", config.out)
        return done
    draft = build_model(inherited.config, inherited.tensors, torch.float32)
    if config.init is not None:
        own = dict(draft.named_parameters())
        earlier = _earlier(Path(config.init), inherited)
        copy_into({name: own[name] for name in earlier}, earlier, f"init={config.init}")
    layout, dtype = load_layout(config.target), getattr(torch, config.dtype.value)
    objective = Objective(
        draft,
        weights,
        lambda: source.model(dtype, accelerator.device),
        temperature_of(layout),
    )
    data = load_data(config, config.batch_size, laws=config.laws)
    if accelerator.is_main_process:  # a target of its own: the training may need none in memory
        _check_data(config, source.model(dtype, accelerator.device), data, accelerator.device)
    training = DraftTraining(
        config, objective, inherited.trained, data, accelerator, sampler_of(layout)
    )
    settings = training.start(settings, config.minutes)
    training.run(track)
    best = training.take_best()
    figures = training.dev_figures(acceptance=True)
    steps = training.plan.steps
    summary = {"steps": steps, "best_step": best.step, **figures}
    if cut := training.counted(CUT):
        seen = steps * config.accumulate * accelerator.num_processes * config.batch_size
        summary[CUT] = cut
        logger.warning("%d of %d training sequences %s", cut, seen, LOST)
    if lost := sum(batch.cut for batch in data.dev):
        logger.warning("%d dev sequences %s", lost, LOST)
    if accelerator.is_main_process:
        _export(config, source, inherited, best.parameters, settings, summary)
    training.end(summary)
    return summary


@torch.no_grad()
def _check_data(config: TrainDraftConfig, target: Any, data: Data, device: torch.device) -> None:
    """Warn of another codec's codes; raise ValueError for another target's distributions."""
    batch = data.dev[0].to(device)
    at = batch.targets != IGNORED
    warn_of_other_codes(speech_logits(target, batch.inputs, at), batch.targets[at])
    batch = data.batch(range(config.batch_size)).to(device)
    if batch.laws is None:
        return
    at = ~batch.laws.rest.isnan()
    logits = speech_logits(target, batch.inputs, at).float()
    distance = float(tv(logits, batch.laws.at(at).logits(logits)).mean())
    if distance > MAX_DISTANCE:
        raise ValueError(
            f"the laws in {config.own} are {distance:.2f} away from the target's (total variation, "
            f"{MAX_DISTANCE} at most); make them with sst-own-codes and this target, or give "
            "laws=false"
        )


def _earlier(folder: Path, inherited: Inherited) -> dict[str, Tensor]:
    """Read the trained parameters of an earlier draft; raise ValueError if its shape differs."""
    config, tensors = read_checkpoint(folder)
    for key, value in inherited.config.items():
        if key != "layer_types" and config.get(key) != value:  # num_hidden_layers says it shorter
            raise ValueError(
                f"init={folder} has {key}={config.get(key)}, this draft {value}; "
                "give a draft of the same target and number of layers"
            )
    return {name: tensors[name] for name in inherited.trained}


def _settings(config: TrainDraftConfig, digest: str, processes: int) -> dict[str, Any]:
    """Return the settings that decide the result, with the target's hash for its path."""
    init = None if config.init is None else source_hash(Path(config.init))
    made_of = {"target": config.target.name, "target_sha256": digest, "init": init}
    if config.target.instruction is not None:
        made_of["instruction"] = config.target.instruction
    return settings_of(config, **made_of, processes=processes)


def _export(
    config: TrainDraftConfig,
    source: TargetCheckpoint,
    inherited: Inherited,
    trained: dict[str, Tensor],
    settings: dict[str, Any],
    summary: dict[str, Any],
) -> None:
    stored = {name: value.to(inherited.tensors[name].dtype) for name, value in trained.items()}
    inheritance = {
        "target": config.target.name,
        "target_sha256": source.digest,
        "layers": config.layers,
        "trained": inherited.trained,
        "untied": inherited.untied,
        "settings": settings,
        "summary": summary,
    }
    tensors = inherited.tensors | stored
    write_draft(Path(config.out), source.folder, inherited.config, tensors, inheritance)
