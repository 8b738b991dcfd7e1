"""Make a layer-inherited draft: inherit, train, select, export; cut-off work goes on."""

import dataclasses
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from transformers import PreTrainedModel

from speculative_tts.files import write_atomic
from speculative_tts.records import write_json
from speculative_tts.schema import Selection, TrainDraftConfig
from speculative_tts.training.checkpoint import (
    build_model,
    read_checkpoint,
    source_hash,
    write_draft,
)
from speculative_tts.training.data.pairs import Data
from speculative_tts.training.draft_loop import DraftTraining, check_launch
from speculative_tts.training.evaluate import dev_figures, warn_of_other_codes
from speculative_tts.training.inherit import (
    inherit_config,
    inherit_tensors,
    is_tied,
    trained_parameters,
)
from speculative_tts.training.journal import Log
from speculative_tts.training.losses import check_weights
from speculative_tts.training.objective import Objective, Sampler
from speculative_tts.training.state import Best, clear_states
from speculative_tts.typed import read_json

TRAINING = "training"  # folder beside the exported checkpoint
SETTINGS = "settings.json"
SUMMARY = "summary.json"
DONE = "DONE"
_NO_EFFECT = (
    "out",
    "threads",
    "save_every",
    "wandb",
    "device",
    "gradient_checkpointing",
)  # on what is learnt

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """What a draft is made from: a target's configuration, tensors and weights' SHA-256."""

    folder: Path
    config: dict[str, Any]
    tensors: dict[str, Tensor]
    digest: str

    @classmethod
    def read(cls, folder: Path) -> "Source":
        """A checkpoint folder. ValueError when something is missing or broken."""
        config, tensors = read_checkpoint(folder)
        return cls(folder, config, tensors, source_hash(folder))

    def model(self, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
        """The target itself, frozen."""
        model = build_model(self.config, self.tensors, dtype, device)
        model.requires_grad_(False).train(mode=False)
        return model


@dataclass(frozen=True)
class Inherited:
    """The draft before training, and the names of the parameters that will be trained."""

    config: dict[str, Any]
    tensors: dict[str, Tensor]
    trained: list[str]
    untied: bool


def inherit(source: Source, config: TrainDraftConfig) -> Inherited:
    """Pick layers and apply the freeze policy.

    A tied target gets an untied draft when its head is trained and its embeddings are frozen, the
    paper's policy.
    """
    untie = is_tied(source.config) and config.train_head and not config.train_embeddings
    draft_config = inherit_config(source.config, config.layers, untie=untie)
    tensors = inherit_tensors(source.config, source.tensors, config.layers, untie=untie)
    trained = trained_parameters(
        tensors,
        train_layers=config.train_layers,
        train_head=config.train_head,
        train_embeddings=config.train_embeddings,
    )
    return Inherited(draft_config, tensors, trained, untie)


def make_draft(
    config: TrainDraftConfig,
    data: Callable[[], Data],
    accelerator: Accelerator,
    sampler: Sampler,
    temperature: float,
    log: Log | None = None,
) -> dict[str, Any]:
    """Train the draft of `config` into `config.out`, or go on with it; returns its summary.

    `sampler` and `temperature` are the target's: they define dev acceptance and the distillation
    losses.
    """
    check_launch(accelerator)
    weights = dataclasses.asdict(config.losses)
    check_weights(weights)
    source = Source.read(Path(config.target.path))
    inherited = inherit(source, config)
    folder = Path(config.out) / TRAINING
    settings = result_settings(config, source.digest, accelerator.num_processes)
    _check_same(folder / SETTINGS, settings)
    if (folder / DONE).is_file():
        logger.info("%s is complete; nothing to do", config.out)
        if accelerator.is_main_process:
            clear_states(folder)  # a kill may have come between DONE and this
        return read_json(folder / SUMMARY)
    if accelerator.is_main_process:
        write_json(folder / SETTINGS, settings)
    draft = build_model(inherited.config, inherited.tensors, torch.float32)
    if config.init is not None:
        load_parameters(draft, _earlier(Path(config.init), inherited))
    dtype = getattr(torch, config.dtype.value)
    objective = Objective(
        draft, weights, lambda: source.model(dtype, accelerator.device), temperature
    )
    loaded = data()
    if accelerator.is_main_process:  # a target of its own: the training may need none in memory
        target = source.model(dtype, accelerator.device)
        warn_of_other_codes(target, loaded.dev[0].to(accelerator.device))
        del target
    selecting = config.select is Selection.acceptance
    training = DraftTraining(
        config,
        objective,
        inherited.trained,
        loaded,
        accelerator,
        folder,
        sampler if selecting else None,
    )
    if config.gradient_checkpointing:
        recompute_activations(draft)
    best = training.run(log)
    load_parameters(draft, best.parameters)
    figures = dev_figures(objective, loaded.dev, accelerator, sampler)
    summary = {"steps": config.steps, "best_step": best.step, **figures}
    if accelerator.is_main_process:
        _export(config, source, inherited, best, settings, summary)
    accelerator.wait_for_everyone()
    return summary


def _earlier(folder: Path, inherited: Inherited) -> dict[str, Tensor]:
    """The trained parameters of an earlier draft of this shape. ValueError when it is another."""
    config, tensors = read_checkpoint(folder)
    for key, value in inherited.config.items():
        if key != "layer_types" and config.get(key) != value:  # num_hidden_layers says it shorter
            raise ValueError(
                f"init={folder} has {key}={config.get(key)}, this draft {value}; "
                "give a draft of the same target and number of layers"
            )
    return {name: tensors[name] for name in inherited.trained}


def recompute_activations(model: Any) -> None:
    """Keep layers' inputs only; transformers does so in training mode alone (there is no dropout).

    The method's older name is deprecated.
    """
    newer = getattr(model, "activation_checkpointing_enable", None)
    (newer or model.gradient_checkpointing_enable)({"use_reentrant": False})
    model.train()


def load_parameters(model: nn.Module, parameters: Mapping[str, Tensor]) -> None:
    """Copy `parameters` into the model's parameters of these names."""
    own = dict(model.named_parameters())
    with torch.no_grad():
        for name, value in parameters.items():
            own[name].copy_(value)


def result_settings(config: TrainDraftConfig, digest: str, processes: int) -> dict[str, Any]:
    """What decides the result, as JSON values; the target's hash stands for its path."""
    plain = {
        key: value for key, value in dataclasses.asdict(config).items() if key not in _NO_EFFECT
    }
    plain = {key: value.name if isinstance(value, Enum) else value for key, value in plain.items()}
    init = None if config.init is None else source_hash(Path(config.init))
    made_from = {"target": config.target.name, "target_sha256": digest, "init": init}
    if config.target.instruction is not None:
        made_from["instruction"] = config.target.instruction
    return plain | made_from | {"processes": processes}


def _check_same(path: Path, settings: Mapping[str, Any]) -> None:
    if not path.is_file():
        return
    before = read_json(path)
    for key in sorted({*before, *settings}):
        if before.get(key) != settings.get(key):
            raise ValueError(
                f"{path.parents[1]} was trained with {key}={before.get(key)}, now "
                f"{settings.get(key)}; use the same settings or another out"
            )


def _export(
    config: TrainDraftConfig,
    source: Source,
    inherited: Inherited,
    best: Best,
    settings: Mapping[str, Any],
    summary: Mapping[str, Any],
) -> None:
    out = Path(config.out)
    trained = {
        name: value.to(inherited.tensors[name].dtype) for name, value in best.parameters.items()
    }
    inheritance = {
        "target": config.target.name,
        "target_sha256": source.digest,
        "layers": config.layers,
        "trained": inherited.trained,
        "untied": inherited.untied,
        "settings": dict(settings),
        "summary": dict(summary),
    }
    write_draft(out, source.folder, inherited.config, inherited.tensors | trained, inheritance)
    write_json(out / TRAINING / SUMMARY, dict(summary))
    write_atomic(out / TRAINING / DONE, "")
    clear_states(out / TRAINING)
