"""Train the tiny VALL-E: an AR of layer 1 with multi-token heads, and a NAR of the other layers.

As for the CosyVoice-2-shaped target (`target`), two things make the model follow its text:
a curriculum from one word to eight, and probes that name the word spoken and the next one. Absolute
positions need more help: text rows name their neighbours, and two heads are taught where to attend
(`valle_losses`). The multi-token heads (Nguyen et al., ICASSP 2025, eq. 3) are trained
jointly from scratch: head i predicts the code i steps on from the same hidden state. Unlike the
paper's sum over all positions, further heads weigh `prediction_weight` at some positions. The
NAR sees an acoustic prompt as in prefix mode 1, and its labels are spread over codes that sound
alike (`nar_losses`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from accelerate import Accelerator
from jaxtyping import Float
from torch import Tensor, nn

from speculative_tts.codecs.tiny import ResidualTinyCodec
from speculative_tts.models.families.valle.ar import ValleAR
from speculative_tts.models.families.valle.checkpoint import Valle, load_valle, save_valle
from speculative_tts.models.families.valle.config import ValleConfig
from speculative_tts.models.families.valle.lm import ValleLM
from speculative_tts.models.families.valle.nar import ValleNAR, draw_prefix
from speculative_tts.models.families.valle.refine import ValleRefiner
from speculative_tts.models.heads import HeadTensors, read_heads, save_heads, target_hash
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.schema.train import TrainTargetConfig
from speculative_tts.training.journal import Log, silent
from speculative_tts.training.loop import Learning, Training, TrainingPlan, Values
from speculative_tts.training.state import (
    TRAINING,
    begin,
    copy_into,
    done_before,
    finish,
    settings_of,
)
from speculative_tts_makers.corpora.flite import WORDS
from speculative_tts_makers.corpora.residual import CODEC, CODES
from speculative_tts_makers.training.layered import ValleBatch, collate_valle
from speculative_tts_makers.training.learning import muon_and_adamw, trapezoid
from speculative_tts_makers.training.recordings import (
    FLUENT,
    BatchConfig,
    RecordingsBySpeaker,
    Stage,
    draw_sequences,
    load_recordings,
)
from speculative_tts_makers.training.valle_losses import Extras, ar_losses, nar_losses, nearby
from speculative_tts_makers.training.valle_start import fresh_valle, sound_alike
from speculative_tts_makers.training.watch import TinySampling, Watch

BEGIN, END, FIRST_WORD = 1, 2, 3  # text ids of the official front end: 0 pads, symbols follow
WHOLE = 1 << 30  # end of the last stage: beyond any training
TARGET, HEADS = "target", "heads"  # what is exported, beside the training


@dataclass(frozen=True)
class StageConfig:
    """Length and learning rates of one training stage."""

    steps: int
    warmup_steps: int = 40
    decay_steps: int = 800
    matrix_lr: float = 3e-3
    other_lr: float = 5e-3
    clip: float = 1.0
    save_every: int = 100
    log_every: int = 10
    watch_every: int = 400


@dataclass
class TrainValleConfig:
    """Everything that decides a training run."""

    # sizes that half a core can train in an hour
    dim: int = 160
    heads: int = 5
    layers: int = 6
    nar_scale: float = 0.6  # its width, heads and layers over the AR's: it only refines codes
    nar_spread: float = 0.3  # variance of its spread labels, over the mean square of codes
    predictions: int = 8  # multi-token heads, the AR's own among them
    prediction_weight: float = 0.3  # of each further head's cross entropy; the paper's is 1
    prediction_stride: int = 3  # further heads see one position in so many, others at each step
    probe_weight: float = 0.5
    ar: StageConfig = field(default_factory=lambda: StageConfig(steps=1500, decay_steps=600))
    nar: StageConfig = field(default_factory=lambda: StageConfig(steps=1000, decay_steps=500))
    batch: BatchConfig = field(
        default_factory=lambda: BatchConfig(
            tokens=1600, stages=(Stage(100, 1), Stage(200, 3), Stage(350, 5), Stage(WHOLE, 8))
        )
    )
    nar_batch: BatchConfig = field(
        default_factory=lambda: BatchConfig(
            single_share=0.0, stages=(Stage(450, 5), Stage(WHOLE, 8))
        )
    )
    sampling: TinySampling = field(default_factory=TinySampling)
    weight_decay: float = 0.05
    watch_rows_step: int = 4
    seed: int = 1
    # a run of this trainer to start from, with all lengths of utterances from the first step
    init: Path | None = None
    first_shard: int = 0

    def __post_init__(self) -> None:
        if self.init is not None:
            self.batch = replace(self.batch, stages=FLUENT)
            self.nar_batch = replace(self.nar_batch, stages=FLUENT)

    @classmethod
    def of(cls, config: TrainTargetConfig) -> Self:
        """Return the settings of a command's; ValueError for one of the other architecture only."""
        if config.compile or config.acoustic_pull:
            raise ValueError(
                "compile and acoustic_pull are not there for architecture=valle; leave them out"
            )
        own = asdict(config.valle)
        nar = {"steps": own.pop("nar_steps"), "decay_steps": own.pop("nar_decay_steps")}
        names = ("warmup_steps", "matrix_lr", "other_lr", "save_every", "watch_every")
        shared = {name: getattr(config, name) for name in names}
        return cls(
            **own,
            ar=StageConfig(steps=config.steps, decay_steps=config.decay_steps, **shared),
            nar=StageConfig(**nar, **shared),
            probe_weight=config.probe_weight,
            seed=config.seed,
            init=None if config.init is None else Path(config.init),
            first_shard=config.first_shard,
        )

    def model(self, layout: SpeechLayout, quantizers: int) -> ValleConfig:
        """Return the model's options; no dropout, for no recording is seen often."""
        return ValleConfig(
            dim=self.dim,
            heads=self.heads,
            layers=self.layers,
            quantizers=quantizers,
            n_codes=layout.n_codes,
            text_tokens=FIRST_WORD + len(layout.words),
            nar_scale=self.nar_scale,
            dropout=0.0,
            share_embedding=False,
        )


def valle_layout(codec: ResidualTinyCodec, sampling: TinySampling) -> SpeechLayout:
    """Return the layout whose text ids are rows of VALL-E's own text embedding."""
    return SpeechLayout(
        n_codes=codec.n_codes,
        stop_ids=(codec.n_codes,),
        speech_vocab_size=codec.n_codes + 1,
        text_offset=FIRST_WORD,
        words=tuple(sorted(WORDS)),
        sos_id=BEGIN,
        task_id=END,
        token_rate=codec.token_rate,
        sample_rate=codec.sample_rate,
        sampling=asdict(sampling),
    )


class JointAR(nn.Module):
    """Compute the loss of the AR with its probes and heads."""

    def __init__(self, ar: ValleAR, extras: Extras, config: TrainValleConfig) -> None:
        super().__init__()
        self.ar, self.extras, self._config = ar, extras, config

    def forward(self, batch: tuple[ValleBatch, slice]) -> tuple[Tensor, Values]:
        """Return the loss to minimise and the parts to log; further heads see some positions."""
        c = self._config
        own, probes, further, logged = ar_losses(self.ar, self.extras, *batch)
        return own + c.probe_weight * probes + c.prediction_weight * further.sum(), logged


class TinyStagedNAR(nn.Module):
    """Compute the loss of the NAR at one stage."""

    def __init__(self, nar: ValleNAR, near: Float[Tensor, "layers codes codes"]) -> None:
        super().__init__()
        self.nar, self._near = nar, near

    def forward(self, batch: tuple[ValleBatch, int, int]) -> tuple[Tensor, Values]:
        """Return the mean loss over predicted frames."""
        return nar_losses(self.nar, *batch, self._near)


@dataclass(frozen=True)
class ValleRun:
    """Models and data of a training run."""

    config: TrainValleConfig
    layout: SpeechLayout
    data: RecordingsBySpeaker
    accelerator: Accelerator
    valle: Valle
    extras: Extras
    near: Float[Tensor, "layers codes codes"]

    @classmethod
    def build(
        cls,
        config: TrainValleConfig,
        layout: SpeechLayout,
        data: RecordingsBySpeaker,
        accelerator: Accelerator,
        codec: ResidualTinyCodec,
    ) -> ValleRun:
        """Build AR and heads, fresh or from `config.init`, and a fresh NAR and probes."""
        valle = fresh_valle(config.model(layout, codec.n_layers), config.seed)
        classes = layout.n_codes + 1
        extras = Extras(config.dim, len(layout.words) + 1, config.predictions - 1, classes)
        if config.init is not None:
            valle.ar.load_state_dict(load_valle(config.init / TARGET).ar.state_dict())
            further = read_heads(config.init / HEADS)[0].weight[1:]
            copy_into({HEADS: extras.predictions}, {HEADS: further}, f"{config.init / HEADS}")
        books = torch.from_numpy(codec.entries).float()
        sound_alike(valle.nar, books, config.seed)
        near = nearby(books, config.nar_spread)
        return cls(config, layout, data, accelerator, valle, extras, near)

    def batch(self, config: BatchConfig, step: int, number: int) -> ValleBatch:
        """Draw sequences of the length that the curriculum allows at this step."""
        rng = np.random.default_rng([self.config.seed, number])
        sequences = draw_sequences(rng, self.data, config, step)
        return collate_valle(sequences, self.layout, self.config.predictions)

    def export(self, out: Path) -> None:
        """Write <out>/target (both models, float16, and speech.json) and <out>/heads."""
        save_valle(self.valle, out / TARGET, dtype=torch.float16)
        self.layout.save(out / TARGET)
        own = self.valle.ar.ar_predict_layer.weight[None]
        tensors = HeadTensors(torch.cat([own, self.extras.predictions]).detach().half())
        about = {
            "trained": "jointly with the AR, from scratch",
            "weight": self.config.prediction_weight,
            "steps": self.config.ar.steps,
        }
        save_heads(out / HEADS, tensors, target=out / TARGET, about=about)


class StageTraining(Training):
    """Base of AR and NAR training: Muon for the trunk's matrices, AdamW for all else."""

    def __init__(
        self,
        folder: Path,
        run: ValleRun,
        module: nn.Module,
        stage: StageConfig,
        watch: Watch | None,
    ) -> None:
        model, *extras = module.children()
        rates = (stage.matrix_lr, stage.other_lr)
        optimizers = muon_and_adamw(model, nn.ModuleList(extras), rates, run.config.weight_decay)
        rate = trapezoid(warmup=stage.warmup_steps, decay=stage.decay_steps)
        learning = Learning(module.train(), dict(module.named_parameters()), optimizers, rate)
        plan = TrainingPlan(
            stage.steps, stage.save_every, stage.watch_every, stage.log_every, clip=stage.clip
        )
        super().__init__(folder, plan, learning, run.accelerator)
        self._run, self._watch = run, watch


class TinyARTraining(StageTraining):
    """Train the AR with heads and probes."""

    def __init__(self, out: Path, run: ValleRun, watch: Watch | None = None) -> None:
        module = JointAR(run.valle.ar, run.extras, run.config)
        super().__init__(out / TRAINING / "ar", run, module, run.config.ar, watch)

    def batch(self, step: int, number: int) -> tuple[ValleBatch, slice]:
        """Return sequences, and the positions that further heads see."""
        stride = self._run.config.prediction_stride
        some = slice(step % stride, None, stride)
        return self._run.batch(self._run.config.batch, step, number), some

    def evaluate(self) -> dict[str, Any]:
        """Evaluate the speech of the first layer alone."""
        if self._watch is None:
            return {}
        return self._watch(ValleLM(self._run.valle.ar, layout=self._run.layout))


class TinyNARTraining(StageTraining):
    """Train the NAR after the AR, its stages in turn; it is evaluated at the end only."""

    def __init__(self, out: Path, run: ValleRun, watch: Watch | None = None) -> None:
        stage = replace(run.config.nar, watch_every=run.config.nar.steps)
        module = TinyStagedNAR(run.valle.nar, run.near)
        super().__init__(out / TRAINING / "nar", run, module, stage, watch)

    def batch(self, step: int, number: int) -> tuple[ValleBatch, int, int]:
        """Return sequences, the stage to train, and how many frames are given as a prompt."""
        config, nar = self._run.config, self._run.valle.nar
        batch = self._run.batch(config.nar_batch, step, number)
        generator = torch.Generator().manual_seed(config.seed * 1_000_003 + number)
        stage = 1 + step % len(nar.nar_predict_layers)
        return batch, stage, draw_prefix(batch.code_lengths, generator)

    def evaluate(self) -> dict[str, Any]:
        """Evaluate the speech of all layers."""
        if self._watch is None:
            return {}
        valle, layout = self._run.valle, self._run.layout
        return self._watch(ValleLM(valle.ar, layout=layout), ValleRefiner(valle.nar, layout))


def train_valle(
    config: TrainValleConfig, corpus: Path, out: Path, accelerator: Accelerator, track: Log = silent
) -> dict[str, Any]:
    """Train AR, heads and NAR on the corpus of `prepare_residual`, or resume after a kill.

    The trainings of both stages and the exported target/ and heads/ are in `out`; return the last
    figures.
    """
    init = None if config.init is None else target_hash(config.init / TARGET)
    settings = settings_of(config, prepared=str(corpus), init=init)
    done = done_before(out / TRAINING, settings, extend=True)
    if done is not None:
        return done
    codec = ResidualTinyCodec.load(corpus / CODEC)
    layout = valle_layout(codec, config.sampling)
    watch = Watch.load(
        corpus / "dev", codec, layout, config.sampling, config.watch_rows_step, config.seed
    )
    data = load_recordings(corpus / CODES, layout, config.first_shard)
    layout = replace(layout, trained_words=data.trained_words)
    run = ValleRun.build(config, layout, data, accelerator, codec)
    if accelerator.is_main_process:
        begin(out / TRAINING, settings)
    TinyARTraining(out, run, watch).run(track)
    nar = TinyNARTraining(out, run, watch)
    nar.run(lambda row: track({**row, "step": config.ar.steps + row["step"]}))
    if accelerator.is_main_process:
        run.export(out)
        finish(out / TRAINING, nar.figures)
    return nar.figures
