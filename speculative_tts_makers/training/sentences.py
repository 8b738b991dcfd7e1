"""Train a target that speaks any sentence: CosyVoice 2's shape over phones and codes.

What makes it listen: text on the clock of speech (`models.phones`), heads shown where to look
(`guided`), short utterances first, and a history that is not to be trusted: some codes are
replaced by a neighbour or left out, so that the text is needed. Labels are spread over codes that
sound alike, and rows of codes begin as projections of the codec's entries.
"""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch
from accelerate import Accelerator
from jaxtyping import Float, Float32, Int64
from torch import Tensor, nn
from torch.nn.functional import log_softmax

from speculative_tts.codecs.tiny import TinyCodec
from speculative_tts.models.phones import PhoneLayout
from speculative_tts.schema.common import DType
from speculative_tts.schema.train import TrainTargetConfig
from speculative_tts.state_dicts import write_tensors
from speculative_tts.text.phones import PHONES
from speculative_tts.training.data.pairs import IGNORED
from speculative_tts.training.journal import Log, silent
from speculative_tts.training.loop import Learning, Training, TrainingPlan, Values
from speculative_tts.training.optimiser import Muon, adamw
from speculative_tts.training.state import TRAINING, done_before, settings_of
from speculative_tts.typed import write_json
from speculative_tts_makers.corpora.texts import WORDS
from speculative_tts_makers.training.acoustic import AcousticPull
from speculative_tts_makers.training.guided import GuidedLM, Look, Shape
from speculative_tts_makers.training.phones import (
    Drawing,
    PhoneBatch,
    PhoneData,
    collate,
    mean_clock,
    read_spoken,
)

TARGET = "target"  # the exported checkpoint, beside the training
NEIGHBOURS = 9  # codes that a label is spread over, itself included
PACED = 20  # steps after which a training with a time limit counts again how many are left


@dataclass
class SentenceRecipe:
    """Everything that decides the training of a sentence target."""

    prepared: str = "data/sentences"  # codec/ and codes/ of sst-prepare corpus=sentences
    out: str = "runs/sentences"
    shape: Shape = field(default_factory=Shape)
    drawing: Drawing = field(default_factory=Drawing)
    clock: bool = True  # rows of the text on the clock of speech; false: one row a phone
    block: int = 128  # rows that the text is filled up to a multiple of; 0: none
    steps: int = 4000
    seconds: float | None = None  # in place of steps: as many as this time allows
    warmup_steps: int = 60
    decay: float = 0.45  # share of the steps in which rates fall to 0
    matrix_lr: float = 3e-3
    other_lr: float = 5e-3
    weight_decay: float = 0.05
    guide: float = 1.0  # weight of the guided heads' loss
    spread: float = 0.3  # of labels, in mean distances of neighbours; 0: none
    noise: float = 0.2  # share of the history's codes that are replaced or left out
    acoustic_pull: float = 0.1  # every `pull_every` steps
    pull_every: int = 5
    half: bool = False  # work in bfloat16
    dev: int = 96  # utterances of the dev loss
    watch_every: int = 250
    export_seconds: float = 20.0  # between exports of a training with a time limit
    save_every: int = 500
    seed: int = 1
    sampling: dict[str, float] = field(
        default_factory=lambda: {
            "temperature": 0.7,
            "top_k": 25,
            "top_p": 0.8,
            "min_tokens_per_word": 0.7,
            "max_tokens_per_word": 1.6,
        }
    )

    @classmethod
    def of(cls, config: TrainTargetConfig) -> Self:
        """Return the recipe of a command's settings; raise ValueError for those of others."""
        if config.compile or config.init is not None:
            raise ValueError(
                "compile and init are not there for architecture=sentences; leave them out"
            )
        own = asdict(config.sentences)
        names = ("prepared", "out", "steps", "warmup_steps", "matrix_lr", "other_lr", "watch_every")
        shared = {name: getattr(config, name) for name in (*names, "save_every", "seed")}
        return cls(
            shape=Shape(layers=config.layers, guided=guided_layers(config.layers)),
            drawing=Drawing(rows=own.pop("batch_size")),
            decay=min(1.0, config.decay_steps / config.steps),
            half=config.dtype is DType.bfloat16,
            **own,
            **shared,
        )


def guided_layers(layers: int) -> tuple[int, ...]:
    """Choose three layers of the first half."""
    return tuple(sorted({layers // 8 - 1 if layers >= 8 else 0, layers // 5, layers // 3}))


class LabelSpread(nn.Module):
    """Neighbours of each code in the codec's space, and how a label is shared among them."""

    near: Int64[Tensor, "codes neighbours"]
    share: Float32[Tensor, "codes neighbours"]

    def __init__(self, codebook: Float[Tensor, "codes features"], spread: float) -> None:
        super().__init__()
        distance, near = torch.cdist(codebook, codebook).square().topk(NEIGHBOURS, largest=False)
        width = max(spread * float(distance[:, 1:].mean()), 1e-6)
        self.register_buffer("near", near, persistent=False)
        self.register_buffer("share", torch.softmax(-distance / (2 * width), 1), persistent=False)


class SentenceModel(nn.Module):
    """The language model with its losses, means over speech positions."""

    def __init__(self, config: SentenceRecipe, layout: PhoneLayout, codebook: Tensor) -> None:
        super().__init__()
        torch.manual_seed(config.seed)
        self.lm = GuidedLM(config.shape, layout.vocab_size)
        self.spread = LabelSpread(codebook, config.spread)
        self.layout, self.guide, self.noise = layout, config.guide, config.noise
        self.dtype = torch.bfloat16 if config.half else torch.float32
        begin_rows(self.lm, codebook)

    def forward(self, batch: PhoneBatch) -> tuple[Tensor, Values]:
        """Return the loss to minimise; those on the recorded codes and of the guide are logged."""
        x = self.lm.model.embed_tokens(batch.inputs)
        if self.training and self.noise:
            x = self._disturbed(batch.inputs, x)
        hidden, guide = self.lm.model(x.to(self.dtype), Look(batch.phone, batch.spoken))
        at = batch.targets != IGNORED
        labels, spoken = batch.targets[at], slice(0, self.layout.speech_vocab_size)
        weight = self.lm.lm_head.weight[spoken].to(self.dtype)
        logits = log_softmax((hidden[at] @ weight.T).float(), -1)
        hard = -logits.gather(1, labels[:, None])[:, 0]
        is_code = labels < self.layout.n_codes
        code = labels.clamp(max=self.layout.n_codes - 1)
        soft = -(logits.gather(1, self.spread.near[code]) * self.spread.share[code]).sum(1)
        loss = torch.where(is_code, soft, hard).mean()
        return loss + self.guide * guide, {"loss": hard.mean(), "guide": guide}

    def _disturbed(self, inputs: Tensor, x: Tensor) -> Tensor:
        """Replace some codes by a neighbour and leave some out."""
        near = self.spread.near
        is_code = inputs < self.layout.n_codes
        draw = torch.rand(inputs.shape, device=inputs.device).masked_fill(~is_code, 1.0)
        which = torch.randint(NEIGHBOURS, inputs.shape, device=inputs.device)
        other = near[inputs.clamp(max=len(near) - 1), which]
        x = torch.where((draw < self.noise)[..., None], self.lm.model.embed_tokens(other), x)
        return x * (draw > self.noise / 3)[..., None]


@torch.no_grad()
def begin_rows(lm: GuidedLM, codebook: Float[Tensor, "codes features"]) -> None:
    """Begin rows of codes as one projection of the codec's entries, of inputs and of the head."""
    entries = (codebook - codebook.mean(0)) / codebook.std()
    table, head = lm.model.embed_tokens.weight, lm.lm_head.weight
    image = entries @ (torch.randn(entries.shape[1], table.shape[1]) / entries.shape[1] ** 0.5)
    image = image / image.std()
    table.normal_(std=0.5)
    head.normal_(std=0.02)
    table[: len(image)] = 0.5 * image + 0.1 * torch.randn_like(image)
    head[: len(image)] = 0.5 * image / table.shape[1] ** 0.5


class SentenceTraining(Training):
    """Trains a `SentenceModel`; exports on the way, as the plan or the time limit says."""

    def __init__(
        self,
        config: SentenceRecipe,
        layout: PhoneLayout,
        codec: TinyCodec,
        accelerator: Accelerator,
    ) -> None:
        codebook = torch.from_numpy(codec.codebook)
        model = SentenceModel(config, layout, codebook)
        matrices = [p for n, p in model.lm.named_parameters() if p.ndim == 2 and ".layers." in n]
        others = [
            p for n, p in model.lm.named_parameters() if not (p.ndim == 2 and ".layers." in n)
        ]
        optimizers = [
            Muon(matrices, config.matrix_lr, weight_decay=config.weight_decay),
            adamw(others, config.other_lr, 0.0),
        ]
        learning = Learning(model, dict(model.lm.named_parameters()), optimizers, self._rate_at)
        plan = TrainingPlan(config.steps, config.save_every, config.watch_every, log_every=10)
        super().__init__(Path(config.out) / TRAINING, plan, learning, accelerator)
        self.model, self.layout, self._config = model.train(), layout, config
        voices = read_spoken(Path(config.prepared) / "codes", "train", layout)
        self._data = PhoneData(voices, layout, config.drawing, config.seed)
        dev = read_spoken(Path(config.prepared) / "codes", "dev", layout)
        said = [(one,) for voice in sorted(dev) for one in dev[voice][: config.dev // len(dev)]]
        said.sort(key=lambda one: len(one[0].codes))
        self._dev = [collate(said[i : i + 16], layout) for i in range(0, len(said), 16)]
        pull = AcousticPull(codebook.to(accelerator.device), config.acoustic_pull)
        self._pull = pull if config.acoustic_pull else None
        self._drawing = ThreadPoolExecutor(1)
        self._next: dict[int, Future[PhoneBatch]] = {}
        self._begun = self._exported = self._paced = time.monotonic()

    def _rate_at(self, base: float, step: int, steps: int) -> float:
        """Return a rate that rises, stays, and falls linearly to 0 at the last step."""
        rise = min(1.0, (step + 1) / max(1, self._config.warmup_steps))
        left = (steps - step) / max(1.0, self._config.decay * steps)
        return base * max(0.0, min(rise, left))

    def batch(self, step: int, number: int) -> PhoneBatch:
        """See `PhoneData`; the next is drawn while this one is learnt from."""
        drawn = self._next.pop(number, None)
        batch = drawn.result() if drawn else self._data.batch(number, step / self.plan.steps)
        progress = (step + 1) / max(1, self.plan.steps)
        self._next = {number + 1: self._drawing.submit(self._data.batch, number + 1, progress)}
        return batch.to(self.accelerator.device)

    def stepped(self) -> None:
        """Pull the rows of codes towards the codec's geometry; keep to the time limit."""
        if self._pull and self.step % self._config.pull_every == 0:
            self._pull(self.model.lm.model.embed_tokens.weight[: self.layout.n_codes])
        if self._config.seconds is not None:
            self._keep_time(self._config.seconds)

    def _keep_time(self, seconds: float) -> None:
        """Plan as many steps as the time that is left allows at the pace of the last ones."""
        now = time.monotonic()
        if now - self._begun > seconds:
            self.plan = replace(self.plan, steps=self.step)
        if self.step % PACED == 0:
            each, self._paced = (now - self._paced) / PACED, now
            if self.step > PACED:  # the first steps are no measure
                left = max(0, int((seconds - (now - self._begun)) / each))
                self.plan = replace(self.plan, steps=self.step + left)
        if now - self._exported > self._config.export_seconds:
            self.export(Path(self._config.out) / TARGET)
            self._exported = time.monotonic()

    def evaluate(self) -> dict[str, Any]:
        """Export, and return the loss with the true text and with the text of another."""
        self.export(Path(self._config.out) / TARGET)
        return self.dev_figures()

    @torch.no_grad()
    def dev_figures(self) -> dict[str, float]:
        """Return losses in nats a code: with the recorded text, and with the next utterance's."""
        self.model.eval()
        sums = torch.zeros(3, device=self.accelerator.device)
        for batch in self._dev:
            here = batch.to(self.accelerator.device)
            _, values = self.model(here)
            text = (here.phone >= 0) | (here.inputs == self.layout.fill_id)
            moved = torch.where(text & text.roll(1, 0), here.inputs.roll(1, 0), here.inputs)
            _, other = self.model(replace(here, inputs=moved))
            sums += torch.stack([values["loss"], values["guide"], other["loss"]])
        self.model.train()
        true, guide, other = (sums / len(self._dev)).tolist()
        return {"dev_loss": true, "dev_guide": guide, "dev_loss_other_text": other}

    def export(self, folder: Path) -> None:
        """Write config.json, model.safetensors (float16) and speech.json."""
        ids = {"bos_token_id": self.layout.sos_id, "eos_token_id": self.layout.eos_id}
        config = self.model.lm.config(self.layout.vocab_size, ids)
        tensors = {n: t.half().contiguous().cpu() for n, t in self.model.lm.state_dict().items()}
        write_json(folder / "config.json", config, sort_keys=True)
        write_tensors(folder / "model.safetensors", tensors)
        self.layout.save(folder)


def sentence_layout(config: SentenceRecipe, codec: TinyCodec) -> PhoneLayout:
    """Return the layout of a fresh target, its clock measured on the codes."""
    merged = PhoneLayout.merged(codec.n_codes, PHONES, dict(config.sampling))
    assert isinstance(merged, PhoneLayout)
    layout = replace(merged, block=config.block, trained_words=WORDS)
    return (
        replace(layout, clock=mean_clock(Path(config.prepared) / "codes", layout))
        if config.clock
        else layout
    )


def train_sentences(
    config: SentenceRecipe, accelerator: Accelerator, track: Log = silent
) -> dict[str, Any]:
    """Train on what sst-prepare corpus=sentences left; return the last figures."""
    settings = settings_of(config)
    done = done_before(Path(config.out) / TRAINING, settings, extend=True)
    if done is not None:
        return done
    codec = TinyCodec.load(Path(config.prepared) / "codec")
    layout = sentence_layout(config, codec)
    training = SentenceTraining(config, layout, codec, accelerator)
    training.start(settings)
    training.run(track)
    training.end(training.figures, keep=True)
    return training.figures
