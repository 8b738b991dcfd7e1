"""Settings of sst-train-target, sst-train-draft and sst-train-heads."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

from speculative_tts.schema.common import CheckpointConfig, Device, DType
from speculative_tts.schema.fields import (
    Aside,
    Count,
    Few,
    Many,
    NonNegative,
    Positive,
    ReadPath,
    Seed,
    Several,
    Share,
    Since,
    Threads,
    Whole,
    WrittenPath,
)


class Architecture(Enum):
    """Shape of the target that sst-train-target trains."""

    cosyvoice = "cosyvoice"  # CosyVoice 2's: a Qwen2 over text and codes
    valle = "valle"  # VALL-E's: an AR of the first layer of residual codes, a NAR of the others
    sentences = "sentences"  # CosyVoice 2's over phones: any English sentence


@dataclass
class ValleTrainingConfig:
    """Settings of architecture=valle; the makers' `training.valle` says more."""

    dim: Count = 160  # width of the AR
    heads: Count = 5  # attention heads of the AR
    layers: Count = 6  # of the AR
    nar_scale: Positive = 0.6  # the NAR's width, heads and layers over the AR's
    nar_steps: Count = 1000  # optimiser steps of the NAR, after the AR's
    nar_decay_steps: Count = 500  # linear fall of its learning rates to 0 at the end
    predictions: Count = 8  # multi-token heads trained with the AR, its own among them
    prediction_weight: NonNegative = 0.3  # of each further head's cross entropy; the paper's is 1
    # further heads are trained on every so many positions, others at each step
    prediction_stride: Count = 3


@dataclass
class SentencesTrainingConfig:
    """Settings of architecture=sentences alone; the makers' `training.sentences` says more."""

    # rows of the text on the clock of speech, by mean durations; false: one row a phone
    clock: Annotated[bool, Since(True)] = True
    # rows that the text is filled up to a multiple of, so that speech lies at one distance; 0: none
    block: Annotated[Whole, Since(128)] = 128
    guide: Annotated[NonNegative, Since(1.0)] = 1.0  # weight of what guided heads are shown
    spread: Annotated[NonNegative, Since(0.3)] = 0.3  # of labels over codes that sound alike
    noise: Annotated[Share, Since(0.2)] = 0.2  # share of earlier codes replaced or left out
    batch_size: Annotated[Many, Since(96)] = 96  # sequences of a batch
    # train for so many seconds, with as many steps as they allow; null: `steps`
    seconds: Annotated[Positive | None, Since(None)] = None


@dataclass
class TrainTargetConfig:
    """sst-train-target: the tiny target; the makers' `target.TargetRecipe` adds fixed settings.

    `family=valle` chooses the other architecture, `family=tiny_fine` the fine target, which grows
    out of the trained one; both set steps and folders that suit.
    """

    architecture: Architecture = Architecture.cosyvoice
    valle: ValleTrainingConfig = field(default_factory=ValleTrainingConfig)
    sentences: SentencesTrainingConfig = field(default_factory=SentencesTrainingConfig)
    prepared: ReadPath = "data/tiny"  # what sst-prepare wrote
    # the codec in `prepared` whose codes are learnt: `codec_fine` has them in codes_fine/
    codes_of: str = "codec"
    # a target of `codec` or of prepared's codec/ to begin with, made as fine and deep as asked for;
    # for architecture=valle the folder of a run, of which AR and heads go on
    init: ReadPath | None = None
    first_shard: Whole = 0  # codes before it are passed over: `init` knows them by heart
    layers: Count = 12  # of the trunk
    steps: Count = 2750  # optimiser steps
    warmup_steps: Count = 40  # linear rise of the learning rates
    decay_steps: Count = 1000  # linear fall to 0 at the end
    matrix_lr: Positive = 0.003  # learning rate of matrices (Muon)
    other_lr: Positive = 0.005  # learning rate of everything else (AdamW)
    probe_weight: NonNegative = 0.5  # weight of the word probes that are thrown away after training
    # share of the way that embeddings move towards the codec's geometry, each step; 0: free
    acoustic_pull: Share = 0.0
    watch_every: Count = 400  # steps between word error rates on the dev list
    # steps between checkpoints; a killed run continues at the last one
    save_every: Annotated[Count, Aside()] = 100
    compile: bool = False  # torch.compile: minutes to start, then faster
    device: Annotated[Device, Aside()] = Device.cpu  # of architecture=sentences
    # of architecture=sentences; bfloat16: activations, over float32 weights
    dtype: Annotated[DType, Since(DType.float32)] = DType.float32
    threads: Annotated[Threads, Aside()] = 2  # of torch
    seed: Seed = 1  # of weights and batches
    out: WrittenPath = "runs/target"  # the training, and the exported target/
    wandb: Annotated[bool, Aside()] = False  # track with wandb (extra: cluster)

    @property
    def codes(self) -> str:
        """The folder of `prepared` with the codec's codes."""
        return f"codes{self.codes_of.removeprefix('codec')}"


@dataclass
class LossConfig:
    """Weights of the draft's losses (`training.losses`); the paper's is cross entropy alone."""

    ce: NonNegative = 1.0  # cross entropy on the recorded token
    kl: NonNegative = 0.0  # forward KL to the target's distribution
    tv: NonNegative = 0.0  # 1 - acceptance probability
    lk: NonNegative = 0.0  # -log acceptance probability


class DevFigure(Enum):
    """The dev figure that picks the exported draft."""

    accuracy = "accuracy"  # the most likely token is the recorded one (SSD)
    acceptance = "acceptance"  # expected acceptance under the exact rule and the target's sampler


class CodesFrom(Enum):
    """The speech that a draft or heads learn from."""

    recorded = "recorded"  # the recordings'
    target = "target"  # the target's own, as sst-own-codes wrote it
    mix = "mix"  # both


@dataclass
class CodesTrainingConfig:
    """Settings that trainings on a target's codes share: what is learnt, and the hardware."""

    target: CheckpointConfig = field(default_factory=CheckpointConfig)
    codes: ReadPath = "data/tiny/codes"  # Parquet shards written by sst-prepare
    codes_from: CodesFrom = CodesFrom.recorded  # what is learnt; dev figures are of `codes`
    own: ReadPath = "runs/own_codes"  # of sst-own-codes, for codes_from=target and mix
    weight_decay: NonNegative = 0.01
    dev_utterances: Count | None = 200  # held out for the dev figures; null: all of dev
    seed: Seed = 0
    device: Annotated[Device, Aside()] = Device.cpu
    threads: Annotated[Threads, Aside()] = 1  # of torch
    wandb: Annotated[bool, Aside()] = False  # track with wandb (extra: cluster)


@dataclass
class TrainDraftConfig(CodesTrainingConfig):
    """sst-train-draft: a layer-inherited draft (SSD section 2.2)."""

    # read the target's laws that `own` keeps (sst-own-codes laws=32) in place of running it, after
    # the voice prompts that they follow
    laws: bool = False
    out: WrittenPath = "runs/draft"  # the exported draft, and its training
    layers: list[Whole] = field(default_factory=lambda: [0, 1, 10, 11])  # target layers, in order
    # an earlier draft of the same layers to go on from, in place of the target's weights
    init: ReadPath | None = None
    # training sequences before it are passed over: `init` has heard them
    first_sequence: Annotated[Whole, Since(0)] = 0
    train_layers: Whole = 2  # this many first inherited layers are trained
    train_head: bool = True  # train the output head too
    train_embeddings: bool = False  # train the input embeddings too
    losses: LossConfig = field(default_factory=LossConfig)
    select: DevFigure = DevFigure.accuracy
    steps: Whole = 450  # 0 exports the draft as inherited
    # do as many of the steps as fit into so many minutes, all that comes before them included, by
    # timing the first ones; a killed training keeps their number; null: all of them
    minutes: Annotated[Positive | None, Since(None)] = None
    batch_size: Many = 16  # sequences that a process runs at once
    accumulate: Many = 1  # batches of a process that make one step
    learning_rate: Positive = 2e-3
    muon: bool = False  # Muon for the layers' matrices (not sharded ones); false: AdamW for all
    warmup: Whole = 20  # steps of linear rise of the learning rate
    eval_every: Count = 50  # steps between dev figures
    # steps between checkpoints; a killed run continues at the last
    save_every: Annotated[Count, Aside()] = 50
    dtype: DType = DType.float32  # bfloat16: autocast over float32 weights
    # less memory for a third more time; the same result
    gradient_checkpointing: Annotated[bool, Aside()] = False


class HeadKind(Enum):
    """The form of a multi-token head."""

    linear = "linear"  # one matrix
    residual = "residual"  # Medusa's block, then a matrix
    # one layer that reads its own state and the token just drawn: for drafter=recurrent alone
    recurrent = "recurrent"
    # of a target with a depth decoder: a step for each offset, for drafter=codebooks alone
    codebooks = "codebooks"


class Optimiser(Enum):
    """Optimiser and schedule of heads."""

    adamw = "adamw"  # AdamW, warm-up and cosine
    scaled_adam = "scaled_adam"  # ScaledAdam and Eden, the VALL-E recipe's
    muon = "muon"  # Muon for the matrices of kind=recurrent, else as adamw


@dataclass
class JointConfig:
    """Settings of train_trunk=true: the trunk with its heads, then a VALL-E's NAR.

    Utterances have no voice prompt; those of about one length are batched.
    """

    epochs: Positive | None = None  # over the utterances, in place of steps
    frames: Count = 4000  # codes of a process's batch at most, those that pad included
    accumulate: Many = 1  # batches of a process that make one step
    shortest: Count = 1  # codes of an utterance; shorter ones are left out and counted
    longest: Count | None = None  # longer ones too; null: those that fit no batch
    # of a VALL-E's NAR, after the AR and its heads; 0 leaves the NAR as it is
    nar_epochs: NonNegative = 0
    nar_frames: Count = 2000  # codes of a batch of the NAR, of one layer
    # of the NAR, each step: layer 2 and one of the others (USLM); false: one of them all (VALL-E)
    second_layer: bool = False


@dataclass
class TrainHeadsConfig(CodesTrainingConfig):
    """sst-train-heads: heads that predict several tokens from a target's hidden state."""

    out: WrittenPath = "runs/heads"  # the heads, and their training
    n: Several = 8  # heads, the target's own among them
    kind: HeadKind = HeadKind.linear
    # of kind=recurrent, which has n - 1 steps (as kind=codebooks has): blocks of its layer, one
    # after the other
    blocks: Annotated[Few, Since(1)] = 1
    # of kind=recurrent: units of a block; null: 8 x the target's width in all blocks together; of
    # kind=codebooks: units of a step; null: the depth decoder's width
    width: Count | None = None
    losses: LossConfig = field(default_factory=LossConfig)  # of kind=recurrent and codebooks
    # of kind=recurrent: learn a step as often as the layer's own drafts come to it accepted
    own_drafts: bool = False
    # earlier heads or an earlier layer of this kind and target to go on from, in place of new ones
    init: Annotated[ReadPath | None, Since(None)] = None
    # train the trunk and its own head too, as `joint` says; false: heads on kept hidden states
    train_trunk: bool = False
    joint: JointConfig = field(default_factory=JointConfig)
    target_out: WrittenPath | None = None  # the target that was trained along; null: <out>/target
    optimiser: Optimiser = Optimiser.adamw
    steps: Count = 2000
    # do as many of the steps, of as many of the `sequences`, as fit into so many minutes, by timing
    # the first ones; a killed training keeps their numbers; null: all of them. With train_trunk a
    # NAR comes after
    minutes: Annotated[Positive | None, Since(None)] = None
    # hidden states a batch, of kind=codebooks frames; of no meaning with train_trunk
    batch_size: Many = 1024
    # batches of a process that make one step; with train_trunk joint.accumulate says it
    accumulate: Annotated[Many, Since(1)] = 1
    learning_rate: Positive = 2e-3  # of scaled_adam 0.05 is the paper's
    # steps of linear rise of the learning rate; of scaled_adam batches of a process
    warmup: Whole = 100
    eval_every: Count = 500  # steps between dev figures
    # steps between checkpoints; a killed run continues at the last
    save_every: Annotated[Count, Aside()] = 500
    sequences: Count = 4000  # whose hidden states are kept in memory; all with train_trunk
    # bfloat16: autocast over float32 weights, those of a frozen trunk are bfloat16 too; null: that
    # where the hardware multiplies in it, else float32
    dtype: DType | None = DType.float32
    # compute logits (with train_trunk activations too) again for the gradient: less memory
    gradient_checkpointing: Annotated[bool, Aside()] = False
