"""Train the tiny target: a Qwen2 in CosyVoice 2's shape that follows its text.

Plainly trained on this little speech, such a model babbles and ignores its text. Two
things help: a curriculum from one word to eight, and two linear probes of the final hidden state
that name the word being spoken and the word after it, trained with the model and thrown away.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from speculative_tts.codecs.tiny import TinyCodec
from speculative_tts.models.families.merged_vocab import MergedVocabLM
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.schema.train import TrainTargetConfig
from speculative_tts.state_dicts import write_tensors
from speculative_tts.training.checkpoint import source_hash
from speculative_tts.training.data.pairs import IGNORED
from speculative_tts.training.journal import Log, silent
from speculative_tts.training.loop import Learning, Training, TrainingPlan, Values
from speculative_tts.training.state import TRAINING, done_before, settings_of
from speculative_tts.typed import write_json
from speculative_tts_makers.corpora.flite import WORDS
from speculative_tts_makers.training.acoustic import AcousticPull
from speculative_tts_makers.training.grow import grow_target
from speculative_tts_makers.training.learning import muon_and_adamw, trapezoid
from speculative_tts_makers.training.recordings import (
    FLUENT,
    BatchConfig,
    LabelledBatch,
    RecordingsBySpeaker,
    collate,
    draw_sequences,
    load_recordings,
)
from speculative_tts_makers.training.watch import TinySampling, Watch

TARGET = "target"  # the exported checkpoint, beside the training


@dataclass(frozen=True)
class ModelConfig:
    """Shape of the Qwen2 trunk."""

    hidden_size: int = 192
    intermediate_size: int = 512
    heads: int = 6
    kv_heads: int = 2


@dataclass
class TargetRecipe(TrainTargetConfig):
    """Everything that decides a training run: the command's keys and fixed settings."""

    model: ModelConfig = field(default_factory=ModelConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    sampling: TinySampling = field(default_factory=TinySampling)
    weight_decay: float = 0.05
    clip: float = 1.0
    log_every: int = 10
    watch_rows_step: int = 2


class Probes(nn.Module):
    """Linear probes of the final hidden state for the word spoken and the word after it."""

    def __init__(self, hidden_size: int, n_classes: int) -> None:
        super().__init__()
        self.current = nn.Linear(hidden_size, n_classes)
        self.following = nn.Linear(hidden_size, n_classes)


def build_model(config: ModelConfig, layers: int, layout: SpeechLayout, seed: int) -> Any:
    """Build a fresh Qwen2ForCausalLM over the merged vocabulary."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=layout.vocab_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            max_position_embeddings=1024,
            tie_word_embeddings=False,
            bos_token_id=layout.sos_id,
            eos_token_id=layout.eos_id,
            pad_token_id=layout.eos_id,
        )
    )


class ProbedTarget(nn.Module):
    """Compute the loss of the target and its probes, means over a batch's speech positions."""

    def __init__(self, model: Any, probes: Probes, probe_weight: float) -> None:
        super().__init__()
        self.model, self.probes, self.probe_weight = model, probes, probe_weight

    def forward(self, batch: LabelledBatch) -> tuple[Tensor, Values]:
        """Return the loss to minimise, and the parts to log."""
        hidden = self.model.model(input_ids=batch.inputs, use_cache=False).last_hidden_state
        speech = batch.targets != IGNORED
        states: Float[Tensor, "tokens hidden"] = hidden[speech]
        loss = cross_entropy(self.model.lm_head(states), batch.targets[speech])
        current = cross_entropy(self.probes.current(states), batch.current_word[speech])
        words, guesses = batch.next_word[speech], self.probes.following(states)
        following = cross_entropy(guesses, words)
        return loss + self.probe_weight * (current + following), {
            "loss": loss,
            "current_word_loss": current,
            "next_word_loss": following,
            "next_word_accuracy": accuracy(guesses, words),
        }


def accuracy(logits: Float[Tensor, "n classes"], labels: Int64[Tensor, " n"]) -> Tensor:
    """Return the share of labels that are the likeliest class."""
    return (logits.argmax(dim=-1) == labels).float().mean()


@dataclass(frozen=True)
class Material:
    """The data of a target's training, a pull at its embeddings, and an evaluation of it."""

    layout: SpeechLayout
    data: RecordingsBySpeaker
    pull: Callable[[Tensor], None] | None = None
    watch: Watch | None = None


class TargetTraining(Training):
    """Train on batches drawn by the curriculum; after each step embeddings are pulled (`pull`)."""

    def __init__(
        self,
        out: Path,
        config: TargetRecipe,
        material: Material,
        accelerator: Accelerator,
        begin: Mapping[str, Tensor] | None = None,
    ) -> None:
        layout = material.layout
        model = build_model(config.model, config.layers, layout, config.seed)
        if begin is not None:
            model.load_state_dict(begin)
        probes = Probes(config.model.hidden_size, len(layout.words) + 1)
        if config.compile:
            model.model.compile(dynamic=True)
        module = ProbedTarget(model, probes, config.probe_weight)
        rates = (config.matrix_lr, config.other_lr)
        learning = Learning(
            module,
            dict(module.named_parameters()),
            muon_and_adamw(model, probes, rates, config.weight_decay),
            trapezoid(warmup=config.warmup_steps, decay=config.decay_steps),
        )
        plan = TrainingPlan(
            config.steps, config.save_every, config.watch_every, config.log_every, clip=config.clip
        )
        super().__init__(out / TRAINING, plan, learning, accelerator)
        self.model = model.train()
        self._config, self._material, self._out = config, material, out

    def batch(self, step: int, number: int) -> LabelledBatch:
        """Draw sequences of the length that the curriculum allows at this step."""
        rng = np.random.default_rng([self._config.seed, number])
        sequences = draw_sequences(rng, self._material.data, self._config.batch, step)
        return collate(sequences, self._material.layout)

    def stepped(self) -> None:
        """Pull the embeddings of codes towards the codec's geometry."""
        if self._material.pull is not None:
            codes = self._material.layout.n_codes
            self._material.pull(self.model.model.embed_tokens.weight[:codes])

    def evaluate(self) -> dict[str, Any]:
        """Export the target and return the figures of its evaluation list."""
        folder = self._out / TARGET
        if self.accelerator.is_main_process:
            export_target(self.model, self._material.layout, folder)
        self.accelerator.wait_for_everyone()
        if self._material.watch is None:
            return {}
        model = MergedVocabLM.load(folder, dtype=torch.float32, device=torch.device("cpu"))
        return self._material.watch(model)


def export_target(model: Any, layout: SpeechLayout, folder: Path) -> None:
    """Write config.json, model.safetensors (float16) and speech.json."""
    config = {**model.config.to_dict(), "architectures": ["Qwen2ForCausalLM"], "dtype": "float32"}
    tensors = {name: t.half().contiguous() for name, t in model.state_dict().items()}
    write_json(folder / "config.json", config, sort_keys=True)
    write_tensors(folder / "model.safetensors", tensors)
    layout.save(folder)


def initial_weights(
    config: TargetRecipe, source: Path, codec: TinyCodec, layout: SpeechLayout
) -> dict[str, Tensor]:
    """Grow the weights of `source`, which speaks the codes of `codec` or of the corpus's codec/."""
    same = SpeechLayout.from_folder(source).n_codes == codec.n_codes
    source_codec = codec if same else TinyCodec.load(Path(config.prepared) / "codec")
    return grow_target(source, source_codec, codec, layout, config.layers)


def train_target(
    config: TargetRecipe, accelerator: Accelerator, track: Log = silent
) -> dict[str, Any]:
    """Train on the corpus that `prepare_tiny` wrote to `config.prepared`, or resume after a kill.

    A finished training also continues under other settings, such as more steps. The training and
    the exported target/ are in `config.out`; return the last figures.
    """
    corpus, out = Path(config.prepared), Path(config.out)
    if config.init is not None:
        config.batch = replace(config.batch, stages=FLUENT)
    init = None if config.init is None else source_hash(Path(config.init))
    settings = settings_of(config, init=init)
    done = done_before(out / TRAINING, settings, extend=True)
    if done is not None:
        return done
    codec = TinyCodec.load(corpus / config.codes_of)
    layout = SpeechLayout.merged(codec.n_codes, WORDS, asdict(config.sampling))
    begin = (
        None if config.init is None else initial_weights(config, Path(config.init), codec, layout)
    )
    pull = AcousticPull(torch.from_numpy(codec.codebook).float(), config.acoustic_pull)
    watch = Watch.load(
        corpus / "dev", codec, layout, config.sampling, config.watch_rows_step, config.seed
    )
    data = load_recordings(corpus / config.codes, layout, config.first_shard)
    layout = replace(layout, trained_words=data.trained_words)
    material = Material(layout, data, pull, watch)
    training = TargetTraining(out, config, material, accelerator, begin)
    training.start(settings)
    training.run(track)
    training.end(training.figures, keep=True)
    return training.figures
