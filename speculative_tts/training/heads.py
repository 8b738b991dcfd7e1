"""sst-train-heads' loop: hidden states or sequences in, heads out; a killed training goes on."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from speculative_tts.models.families import VALLE, family_of, load_layout
from speculative_tts.models.heads import save_heads, target_hash
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.models.rows import RowLayout
from speculative_tts.models.valle.checkpoint import load_valle, save_valle
from speculative_tts.records import write_json
from speculative_tts.schema import TrainHeadsConfig
from speculative_tts.training.checkpoint import (
    build_model,
    read_checkpoint,
    write_draft,
)
from speculative_tts.training.data.pairs import Data
from speculative_tts.training.data.recordings import IGNORED
from speculative_tts.training.data.valle_data import first_code, hidden_states
from speculative_tts.training.heads_module import (
    HeadsModule,
    States,
    build_optimizer,
    collect,
    dev_figures,
    head_targets,
    learning_rate,
    losses,
)
from speculative_tts.training.journal import journal
from speculative_tts.training.objective import Batch
from speculative_tts.training.state import Best, State, clear_states, load_state, save_state
from speculative_tts.typed import read_json

TRAINING, SETTINGS = "training", "settings.json"
WITHOUT_EFFECT = ("out", "threads", "save_every", "device")
STATE_BATCH = 16  # sequences run through a frozen trunk at once
MAX_GRADIENT_NORM = 1.0


@dataclass
class Parts:
    """The target's trunk and its own head, cut to speech rows, and the heads being trained."""

    model: nn.Module  # all parameters of trunk and head
    trunk: Callable[[Tensor], Tensor]  # ids [batch, length] -> hidden states [batch, length, dim]
    head: nn.Linear
    rows: slice | Tensor  # of the head, by speech id
    stop_id: int
    export: Callable[[Path, dict[str, Any]], None]  # writes the trained target, with its settings
    heads: HeadsModule = field(init=False)

    def own(self, hidden: Tensor) -> Tensor:
        """Head 0's logits over speech ids."""
        bias = self.bias
        return nn.functional.linear(hidden, self.weight, bias)

    @property
    def weight(self) -> Tensor:
        """The target's head, its speech rows: [vocab, hidden]."""
        return self.head.weight[self.rows]

    @property
    def bias(self) -> Tensor | None:
        """Its bias, if it has one."""
        bias: Tensor | None = self.head.bias
        return None if bias is None else bias[self.rows]

    def targets(self, targets: Tensor) -> Tensor:
        """The next tokens of a batch as speech ids, IGNORED where nothing is learnt."""
        if isinstance(self.rows, slice):
            return targets
        ids = torch.full((self.head.out_features,), IGNORED)
        ids[self.rows] = torch.arange(len(self.rows))
        return torch.where(targets == IGNORED, IGNORED, ids[targets.clamp(min=0)])


def train_heads(config: TrainHeadsConfig, data: Data) -> dict[str, Any]:
    """Train the heads of `config` into config.out, or go on; returns the dev figures.

    Raises ValueError when the folder holds another training, or the loss is not a number.
    """
    out, target = Path(config.out), Path(config.target.path)
    settings = _settings(config)
    _check_same(out, settings)
    write_json(out / TRAINING / SETTINGS, settings)
    torch.manual_seed(config.seed)
    parts = _parts(config)
    data = _in_speech_ids(data, parts)
    device = torch.device(config.device.value)
    training = Training(config, parts, data, device)
    figures = training.run(out / TRAINING)
    checkpoint = target
    if config.train_trunk:
        checkpoint = out / "target"
        parts.export(checkpoint, settings)
    parts.heads.cpu()
    save_heads(
        out,
        parts.heads.tensors(parts.weight.detach().cpu(), _cpu(parts.bias), torch.float16),
        target=checkpoint,
        about={"settings": settings, **figures},
    )
    clear_states(out / TRAINING)
    return figures


class Training:
    """One training; `run` goes on from the newest state in its folder."""

    def __init__(
        self, config: TrainHeadsConfig, parts: Parts, data: Data, device: torch.device
    ) -> None:
        self._config, self._parts, self._data, self._device = config, parts, data, device
        parts.model.to(device).requires_grad_(config.train_trunk)
        parts.heads.to(device)
        self._named = {f"heads.{k}": p for k, p in parts.heads.named_parameters()}
        if config.train_trunk:
            self._named |= {f"model.{k}": p for k, p in parts.model.named_parameters()}
        self._optimizer = build_optimizer(list(self._named.values()), config)
        self._order = torch.Generator()

    def run(self, folder: Path) -> dict[str, Any]:
        """Train up to config.steps; the last dev figures."""
        config = self._config
        state = load_state(folder)
        if state:
            self._restore(state)
        first = state.step if state else 0
        with journal(folder, first if state else -1) as write:
            if first < config.steps and not config.train_trunk:
                states = self._collect()
                batch: Callable[[int], States] = lambda step: self._minibatch(states, step)  # noqa: E731
            else:
                batch = self._sequences
            dev = self._dev() if not config.train_trunk else None
            bar = tqdm(total=config.steps, initial=first, unit="step", desc="heads")
            for step in range(first, config.steps):
                loss = self._step(step, batch(step))
                write({"step": step + 1, "loss": loss})
                bar.update()
                bar.set_postfix(loss=f"{loss:.3f}")
                last = step + 1 == config.steps
                if (step + 1) % config.eval_every == 0 or last:
                    write({"step": step + 1, **self._figures(dev or self._dev())})
                if (step + 1) % config.save_every == 0 or last:
                    self._save(folder, step + 1)
            bar.close()
        return self._figures(dev or self._dev())

    def _collect(self) -> States:
        """Hidden states of config.sequences training sequences."""
        count = self._config.sequences
        starts = range(0, count, STATE_BATCH)
        batches = (self._data.batch(range(s, min(s + STATE_BATCH, count))) for s in starts)
        moved = (batch.to(self._device) for batch in batches)
        parts = self._parts
        return collect(parts.trunk, moved, self._config.n, parts.stop_id, len(starts))

    def _dev(self) -> States:
        parts, batches = self._parts, [batch.to(self._device) for batch in self._data.dev]
        return collect(parts.trunk, batches, self._config.n, parts.stop_id, len(batches))

    def _minibatch(self, states: States, step: int) -> States:
        """Positions of a step: a function of (seed, step)."""
        size = min(self._config.batch_size, len(states))
        self._order.manual_seed(self._config.seed * 1_000_003 + step)
        chosen = torch.randint(len(states), (size,), generator=self._order)
        return States(states.hidden[chosen].float(), states.targets[chosen])

    def _sequences(self, step: int) -> States:
        """Hidden states of the sequences of a step, with gradients to the trunk."""
        size = self._config.batch_size
        batch = self._data.batch(range(step * size, (step + 1) * size)).to(self._device)
        speech = batch.targets != IGNORED
        targets = head_targets(batch.targets, self._config.n, self._parts.stop_id)[speech]
        return States(self._parts.trunk(batch.inputs)[speech], targets)

    def _step(self, step: int, states: States) -> float:
        config, parts = self._config, self._parts
        rate = learning_rate(step, self._epoch(step), config)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        own = parts.own if config.train_trunk else None
        parts_of_loss = [
            loss for _, loss, _ in losses(parts.heads, own, states.hidden, states.targets)
        ]
        total = torch.stack(parts_of_loss).sum()
        if not bool(total.isfinite()):
            raise ValueError(f"loss is {total.item()} at step {step + 1}; lower learning_rate")
        total.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._named.values(), MAX_GRADIENT_NORM * len(parts_of_loss))
        self._optimizer.step()
        self._optimizer.zero_grad()
        return float(total.detach())

    def _epoch(self, step: int) -> float:
        """Epochs done, for Eden; one where hidden states are kept."""
        if not self._config.train_trunk:
            return 0.0
        return float(step * self._config.batch_size // self._config.sequences)

    def _figures(self, dev: States) -> dict[str, Any]:
        return dev_figures(self._parts.heads, self._parts.own, dev)

    def _save(self, folder: Path, step: int) -> None:
        parameters = {k: p.detach().to("cpu", copy=True) for k, p in self._named.items()}
        states = [self._optimizer.state_dict()]
        save_state(folder, State(step, parameters, states, Best(step, 0.0, {})))

    def _restore(self, state: State) -> None:
        with torch.no_grad():
            for name, parameter in self._named.items():
                parameter.copy_(state.parameters[name])
        self._optimizer.load_state_dict(state.optimizers[0])


def _parts(config: TrainHeadsConfig) -> Parts:
    target = Path(config.target.path)
    layout, family = load_layout(config.target), family_of(target)
    if isinstance(layout, RowLayout):
        parts = _transformers_parts(target, layout.order(text_rows=False), *layout.stop_ids)
    else:
        assert isinstance(layout, SpeechLayout)
        rows = slice(layout.speech_vocab_size)
        parts = (
            _valle_parts(target, layout)
            if family is VALLE
            else _transformers_parts(target, rows, layout.eos_id)
        )
    parts.model.train(mode=False)
    parts.heads = HeadsModule(parts.weight, parts.bias, config.n, config.kind)
    return parts


def _in_speech_ids(data: Data, parts: Parts) -> Data:
    """The same batches with targets as the heads count them."""

    def counted(batch: Batch) -> Batch:
        return dataclasses.replace(batch, targets=parts.targets(batch.targets))

    return Data(lambda numbers: counted(data.batch(numbers)), [counted(one) for one in data.dev])


def _transformers_parts(target: Path, rows: slice | Tensor, stop_id: int) -> Parts:
    source, tensors = read_checkpoint(target)
    model: Any = build_model(source, tensors, torch.float32)

    def trunk(ids: Tensor) -> Tensor:
        hidden: Tensor = model.model(input_ids=ids, use_cache=False).last_hidden_state
        return hidden

    def export(folder: Path, settings: dict[str, Any]) -> None:
        trained = {
            name: value.to(tensors[name].dtype)
            for name, value in model.state_dict().items()
            if name in tensors
        }
        about = {"heads": settings, "layers": list(range(source["num_hidden_layers"]))}
        write_draft(folder, target, source, tensors | trained, about)

    head = model.get_output_embeddings()
    return Parts(model, trunk, head, rows, stop_id, export)


def _valle_parts(target: Path, layout: SpeechLayout) -> Parts:
    """Of a VALL-E, its AR; `export` writes the NAR beside it as it was."""
    valle, begin = load_valle(target), first_code(layout)
    ar = valle.ar
    if ar.config.prepend_bos:
        raise ValueError(
            f"{target} begins audio with an id of its own; heads are trained of VALL-E "
            "checkpoints without prepend_bos"
        )

    def export(folder: Path, settings: dict[str, Any]) -> None:  # noqa: ARG001 - heads.json has them
        ar.cpu()
        save_valle(valle, folder)
        layout.save(folder)

    trunk = partial(hidden_states, ar, begin=begin)
    head = ar.ar_predict_layer
    return Parts(ar, trunk, head, slice(layout.speech_vocab_size), layout.eos_id, export)


def _cpu(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach().cpu()


def _settings(config: TrainHeadsConfig) -> dict[str, Any]:
    """What decides the result; the target's weights by their hash."""
    plain = {k: v for k, v in dataclasses.asdict(config).items() if k not in WITHOUT_EFFECT}
    plain = {k: v.name if isinstance(v, Enum) else v for k, v in plain.items()}
    digest = target_hash(Path(config.target.path))
    return plain | {"target": config.target.name, "target_weights": digest}


def _check_same(out: Path, settings: dict[str, Any]) -> None:
    path = out / TRAINING / SETTINGS
    if not path.is_file():
        return
    before = read_json(path)
    for key, value in settings.items():
        if before.get(key) != value:
            raise ValueError(
                f"{out} was trained with {key}={before.get(key)}, now {value}; "
                "use the same settings or another out"
            )
