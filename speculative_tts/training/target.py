"""Train the tiny target: a Qwen2 in CosyVoice 2's shape that follows its text.

Trained plainly on this little speech, such a model learns to babble and ignores its text.  Two
things help: a curriculum from one word to eight, and two linear probes of the final hidden state,
trained with the model and thrown away, that name the word being spoken and the word after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int64
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from speculative_tts.codecs.tiny import TinyCodec
from speculative_tts.corpora.flite import WORDS
from speculative_tts.files import write_atomic, writing
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.schema import TrainTargetConfig
from speculative_tts.training.acoustic import AcousticPull
from speculative_tts.training.data.recordings import (
    IGNORED,
    Batch,
    BatchConfig,
    Recordings,
    draw_batch,
    load_recordings,
)
from speculative_tts.training.optimiser import Muon, split_parameters
from speculative_tts.training.sampling import Sampling
from speculative_tts.training.watch import Watched, error_rate, listen, load_watched, text_gap


@dataclass(frozen=True)
class ModelConfig:
    """Shape of the Qwen2 trunk."""

    hidden_size: int = 192
    intermediate_size: int = 512
    layers: int = 12
    heads: int = 6
    kv_heads: int = 2


@dataclass
class Recipe(TrainTargetConfig):
    """Everything that decides a training run: the command's keys and what nobody changes."""

    model: ModelConfig = field(default_factory=ModelConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    sampling: Sampling = field(default_factory=Sampling)
    muon: bool = True
    weight_decay: float = 0.05
    clip: float = 1.0
    log_every: int = 10
    watch_rows_step: int = 2


class Probes(nn.Module):
    """Linear readers of the final hidden state: the word spoken and the word after it."""

    def __init__(self, hidden_size: int, n_classes: int) -> None:
        super().__init__()
        self.current = nn.Linear(hidden_size, n_classes)
        self.following = nn.Linear(hidden_size, n_classes)


@dataclass
class Trainee:
    """All state of a run: what a checkpoint holds."""

    model: Any
    probes: Probes
    optimisers: list[torch.optim.Optimizer]
    step: int = 0


def build_model(config: ModelConfig, layout: SpeechLayout, seed: int) -> Any:
    """A fresh Qwen2ForCausalLM over the merged vocabulary."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=layout.vocab_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            max_position_embeddings=1024,
            tie_word_embeddings=False,
            bos_token_id=layout.sos_id,
            eos_token_id=layout.eos_id,
            pad_token_id=layout.eos_id,
        )
    )


def build_trainee(config: Recipe, layout: SpeechLayout) -> Trainee:
    """Fresh model, probes and optimisers."""
    model = build_model(config.model, layout, config.seed)
    probes = Probes(config.model.hidden_size, len(layout.words) + 1)
    matrices, others = split_parameters(model)
    others += list(probes.parameters())
    decay = config.weight_decay
    adam = {"betas": (0.9, 0.95), "weight_decay": decay}
    optimisers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(others, lr=config.other_lr, **adam),  # type: ignore[arg-type]
        Muon(matrices, lr=config.matrix_lr, weight_decay=decay)
        if config.muon
        else torch.optim.AdamW(matrices, lr=config.matrix_lr, **adam),  # type: ignore[arg-type]
    ]
    return Trainee(model, probes, optimisers)


def learning_rate_factor(step: int, config: Recipe) -> float:
    """Linear warm-up, constant, linear decay to 0 over the last `decay_steps`."""
    warm = min(1.0, (step + 1) / config.warmup_steps)
    cool = min(1.0, (config.steps - step) / config.decay_steps)
    return max(0.0, min(warm, cool))


def speech_losses(
    trunk: Callable[..., Any], trainee: Trainee, batch: Batch
) -> tuple[Tensor, dict[str, Tensor]]:
    """(speech loss, probe losses and accuracy) over all speech positions of a batch."""
    hidden = trunk(input_ids=batch.inputs, use_cache=False).last_hidden_state
    speech = batch.targets != IGNORED
    states: Float[Tensor, "tokens hidden"] = hidden[speech]
    loss = cross_entropy(trainee.model.lm_head(states), batch.targets[speech])
    current, following = batch.current_word[speech], batch.next_word[speech]
    following_logits = trainee.probes.following(states)
    return loss, {
        "current_word_loss": cross_entropy(trainee.probes.current(states), current),
        "next_word_loss": cross_entropy(following_logits, following),
        "next_word_accuracy": _accuracy(following_logits, following),
    }


def _accuracy(logits: Float[Tensor, "n classes"], labels: Int64[Tensor, " n"]) -> Tensor:
    return (logits.argmax(dim=-1) == labels).float().mean()


def train_step(
    trunk: Callable[..., Any], trainee: Trainee, batch: Batch, config: Recipe
) -> dict[str, float]:
    """One optimiser step; returns its metrics."""
    factor = learning_rate_factor(trainee.step, config)
    rates = (config.other_lr, config.matrix_lr)
    for optimiser, rate in zip(trainee.optimisers, rates, strict=True):
        for group in optimiser.param_groups:
            group["lr"] = rate * factor
        optimiser.zero_grad(set_to_none=True)
    loss, extra = speech_losses(trunk, trainee, batch)
    total = loss + config.probe_weight * (extra["current_word_loss"] + extra["next_word_loss"])
    total.backward()  # type: ignore[no-untyped-call]
    parameters = [*trainee.model.parameters(), *trainee.probes.parameters()]
    norm = nn.utils.clip_grad_norm_(parameters, config.clip)
    for optimiser in trainee.optimisers:
        optimiser.step()
    trainee.step += 1
    metrics = {"loss": loss, "gradient_norm": norm, **extra}
    return {name: float(value.detach()) for name, value in metrics.items()}


def save_state(trainee: Trainee, path: Path) -> None:
    """Write everything that a resumed run needs, atomically."""
    state = {
        "step": trainee.step,
        "model": trainee.model.state_dict(),
        "probes": trainee.probes.state_dict(),
        "optimisers": [optimiser.state_dict() for optimiser in trainee.optimisers],
    }
    with writing(path) as file:
        torch.save(state, file)


def load_state(trainee: Trainee, path: Path) -> None:
    """Put what `save_state` wrote back into `trainee`."""
    state = torch.load(path, weights_only=True)
    trainee.model.load_state_dict(state["model"])
    trainee.probes.load_state_dict(state["probes"])
    for optimiser, saved in zip(trainee.optimisers, state["optimisers"], strict=True):
        optimiser.load_state_dict(saved)
    trainee.step = state["step"]


def export_target(model: Any, layout: SpeechLayout, folder: Path) -> None:
    """Write config.json, model.safetensors (float16) and speech.json."""
    config = {**model.config.to_dict(), "architectures": ["Qwen2ForCausalLM"], "dtype": "float32"}
    write_atomic(folder / "config.json", json.dumps(config, indent=2, sort_keys=True) + "\n")
    tensors = {name: t.half().contiguous() for name, t in model.state_dict().items()}
    write_atomic(folder / "model.safetensors", save(tensors, metadata={"format": "pt"}))
    layout.save(folder)


def train_target(config: Recipe, corpus: Path, out: Path) -> None:
    """Train on what `prepare_tiny` left in `corpus`; run again after a kill to continue.

    Leaves state.pt, metrics.jsonl and the exported target/ in `out`.
    """
    out.mkdir(parents=True, exist_ok=True)
    codec = TinyCodec.load(corpus / "codec")
    layout = SpeechLayout.merged(codec.n_codes, WORDS, asdict(config.sampling))
    data = load_recordings(corpus / "codes", layout)
    watched = load_watched(corpus / "dev", codec, config.watch_rows_step)
    trainee = build_trainee(config, layout)
    if (out / "state.pt").exists():
        load_state(trainee, out / "state.pt")
    _trim_log(out / "metrics.jsonl", trainee.step)
    pull = AcousticPull(torch.from_numpy(codec.codebook).float(), config.acoustic_pull)
    _run_steps(config, trainee, data, layout, codec, watched, pull, out)
    export_target(trainee.model, layout, out / "target")


def _run_steps(
    config: Recipe,
    trainee: Trainee,
    data: Recordings,
    layout: SpeechLayout,
    codec: TinyCodec,
    watched: list[Watched],
    pull: AcousticPull,
    out: Path,
) -> None:
    trunk = trainee.model.model
    if config.compile:
        trunk = torch.compile(trunk, dynamic=True)
    progress = tqdm(total=config.steps, initial=trainee.step, desc="target")
    while trainee.step < config.steps:
        batch = draw_batch(data, layout, config.batch, config.seed, trainee.step)
        metrics = train_step(trunk, trainee, batch, config)
        pull(trunk.embed_tokens.weight[: codec.n_codes])
        progress.update()
        if trainee.step % config.log_every == 0:
            progress.set_postfix(loss=f"{metrics['loss']:.3f}")
            _log(out / "metrics.jsonl", {"step": trainee.step, **metrics})
        if trainee.step % config.watch_every == 0 or trainee.step == config.steps:
            _log(out / "metrics.jsonl", _watch(config, trainee, layout, codec, watched))
            export_target(trainee.model, layout, out / "target")
        if trainee.step % config.save_every == 0 or trainee.step == config.steps:
            save_state(trainee, out / "state.pt")


def _watch(
    config: Recipe,
    trainee: Trainee,
    layout: SpeechLayout,
    codec: TinyCodec,
    watched: list[Watched],
) -> dict[str, float]:
    model = trainee.model.eval()
    true, other = text_gap(model, layout, watched, config.seed)
    heard = listen(model, layout, codec, watched, config.sampling, config.seed)
    model.train()
    return {
        "step": trainee.step,
        "dev_loss": true,
        "dev_loss_random_text": other,
        "dev_word_error_rate": error_rate(heard),
        "dev_bad_length": sum(h.bad_length for h in heard) / len(heard),
    }


def _log(path: Path, values: dict[str, float]) -> None:
    with path.open("a") as log:
        log.write(json.dumps(values) + "\n")


def _trim_log(path: Path, step: int) -> None:
    """Drop what a killed run logged after its last checkpoint."""
    if path.exists():
        lines = [x for x in path.read_text().splitlines() if json.loads(x)["step"] <= step]
        write_atomic(path, "".join(f"{line}\n" for line in lines))


def config_json(config: Recipe) -> str:
    """The run's configuration, for its records."""
    return json.dumps(asdict(config), indent=2)
