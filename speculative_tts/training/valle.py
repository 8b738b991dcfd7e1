"""Train the tiny VALL-E: an AR of layer 1 with multi-token heads, and a NAR of the other layers.

What made the CosyVoice-2-shaped target follow its text makes this one too (`training.target`): a
curriculum from one word to eight, and probes that name the word spoken and the next one. Absolute
positions need more help: text rows name their neighbours, and two heads are told where to attend
(`training.valle_losses`). The multi-token heads (Nguyen et al., ICASSP 2025, eq. 3) are trained
jointly from scratch: head i predicts the code i steps on from the same hidden state. Unlike the
paper's plain sum over all positions, further heads count `prediction_weight` at some positions. The
NAR sees an acoustic prompt as in prefix mode 1.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from speculative_tts.codecs.tiny_residual import ResidualTinyCodec
from speculative_tts.corpora.flite import WORDS
from speculative_tts.corpora.residual import CODEC, CODES
from speculative_tts.models.heads import HeadTensors, save_heads
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.models.valle.checkpoint import Valle, save_valle
from speculative_tts.models.valle.config import ValleConfig
from speculative_tts.training.data.layered import ValleBatch, collate_valle
from speculative_tts.training.data.recordings import (
    BatchConfig,
    Recordings,
    Stage,
    draw_sequences,
    load_recordings,
)
from speculative_tts.training.optimiser import Muon, split_parameters
from speculative_tts.training.sampling import Sampling
from speculative_tts.training.stage import StageConfig, append, train_stage
from speculative_tts.training.target import Trainee
from speculative_tts.training.valle_losses import Extras, ar_losses, nar_losses
from speculative_tts.training.valle_start import fresh_valle
from speculative_tts.training.valle_watch import ValleWatch

BEGIN, END, FIRST_WORD = 1, 2, 3
"""Text ids as the official front end makes them: 0 pads, from 3 on come the symbols, sorted."""

WHOLE = 1 << 30


@dataclass(frozen=True)
class TrainValleConfig:
    """Everything that decides a training run."""

    dim: int = 160
    heads: int = 5
    layers: int = 6
    """Width and layers that half a core can train in an hour."""
    nar_scale: float = 0.6
    """The NAR's width, heads and layers over the AR's: it only refines what the AR says."""
    predictions: int = 8
    """Multi-token heads, the AR's own among them."""
    prediction_weight: float = 0.3
    """Of each further head's cross entropy; the paper's is 1."""
    prediction_stride: int = 3
    """Further heads are trained on every so many positions, others at each step."""
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
    sampling: Sampling = field(default_factory=Sampling)
    weight_decay: float = 0.05
    watch_rows_step: int = 4
    seed: int = 1

    def model(self, layout: SpeechLayout, quantizers: int) -> ValleConfig:
        """The official options of this model; no dropout, for no recording is seen often."""
        return ValleConfig(
            dim=self.dim,
            heads=self.heads,
            layers=self.layers,
            quantizers=quantizers,
            n_codes=layout.n_codes,
            text_tokens=FIRST_WORD + len(layout.words),
            nar_scale=self.nar_scale,
            dropout=0.0,
        )


def valle_layout(codec: ResidualTinyCodec, sampling: Sampling) -> SpeechLayout:
    """Speech ids as everywhere; text ids are rows of VALL-E's own text embedding."""
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


def trainee_of(model: nn.Module, extras: nn.Module, stage: StageConfig, decay: float) -> Trainee:
    """A model with its optimisers: Muon for matrices of the trunk, AdamW for all else."""
    matrices, others = split_parameters(model)
    others += list(extras.parameters())
    adam = torch.optim.AdamW(others, lr=stage.other_lr, betas=(0.9, 0.95), weight_decay=decay)
    muon = Muon(matrices, lr=stage.matrix_lr, weight_decay=decay)
    return Trainee(model, extras, [adam, muon])  # type: ignore[arg-type] # extras are any module


@dataclass(frozen=True)
class ValleRun:
    """The models of a run and what they learn from."""

    config: TrainValleConfig
    layout: SpeechLayout
    data: Recordings
    valle: Valle
    extras: Extras

    @classmethod
    def build(
        cls, config: TrainValleConfig, layout: SpeechLayout, data: Recordings, quantizers: int
    ) -> ValleRun:
        """Fresh models, heads and probes."""
        valle = fresh_valle(config.model(layout, quantizers), config.seed)
        classes = layout.n_codes + 1
        extras = Extras(config.dim, len(layout.words) + 1, config.predictions - 1, classes)
        return cls(config, layout, data, valle, extras)

    def train_ar(self, out: Path, watch: ValleWatch | None = None) -> None:
        """Train, or go on training, the AR and its heads."""
        c = self.config
        trainee = trainee_of(self.valle.ar, self.extras, c.ar, c.weight_decay)

        hear = None if watch is None else partial(watch, self.valle.ar)
        train_stage("ar", trainee, self.ar_step, c.ar, out, hear)

    def train_nar(self, out: Path) -> None:
        """Train, or go on training, the NAR."""
        c = self.config
        trainee = trainee_of(self.valle.nar, nn.Module(), c.nar, c.weight_decay)
        train_stage("nar", trainee, self.nar_step, c.nar, out)

    def ar_step(self, step: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and values to log of an AR step."""
        c = self.config
        some = slice(step % c.prediction_stride, None, c.prediction_stride)
        batch = self._batch(c.batch, step)
        own, probes, further, logged = ar_losses(self.valle.ar, self.extras, batch, some)
        return own + c.probe_weight * probes + c.prediction_weight * further.sum(), logged

    def nar_step(self, step: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and values to log of a NAR step."""
        batch = self._batch(self.config.nar_batch, step)
        return nar_losses(self.valle.nar, batch, self.config.seed, step)

    def export(self, out: Path) -> None:
        """Write <out>/target (both models, float16, and speech.json) and <out>/heads."""
        save_valle(self.valle, out / "target", dtype=torch.float16)
        self.layout.save(out / "target")
        own = self.valle.ar.ar_predict_layer.weight[None]
        tensors = HeadTensors(torch.cat([own, self.extras.predictions]).detach().half())
        about = {
            "trained": "jointly with the AR, from scratch",
            "weight": self.config.prediction_weight,
            "steps": self.config.ar.steps,
        }
        save_heads(out / "heads", tensors, target=out / "target", about=about)

    def _batch(self, batch: BatchConfig, step: int) -> ValleBatch:
        sequences = draw_sequences(self.data, batch, self.config.seed, step)
        return collate_valle(sequences, self.layout, self.config.predictions)


def train_valle(config: TrainValleConfig, corpus: Path, out: Path) -> None:
    """Train AR, heads and NAR on what `prepare_residual` left; run again after a kill to continue.

    Leaves states and logs of both stages, and the exported target/ and heads/ in `out`.
    """
    codec = ResidualTinyCodec.load(corpus / CODEC)
    layout = valle_layout(codec, config.sampling)
    data = load_recordings(corpus / CODES, layout)
    rows = (config.sampling, config.watch_rows_step, config.seed)
    watch = ValleWatch.load(corpus / "dev", codec, layout, *rows)
    run = ValleRun.build(config, layout, data, codec.n_layers)
    run.train_ar(out, watch)
    run.train_nar(out)
    append(
        out / "nar-metrics.jsonl", {"step": config.nar.steps, **watch(run.valle.ar, run.valle.nar)}
    )
    run.export(out)
