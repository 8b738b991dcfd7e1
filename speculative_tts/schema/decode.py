"""Settings of sst-decode, and the engine's, which sst-speak and sst-bench share."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

from speculative_tts.schema.common import (
    CheckpointConfig,
    CodecConfig,
    Device,
    DType,
    ListConfig,
    TransitionsConfig,
)
from speculative_tts.schema.drafters import DrafterConfig
from speculative_tts.schema.fields import (
    AUTO,
    Count,
    Ids,
    KeptPath,
    Lookahead,
    NonNegative,
    Nucleus,
    PerWord,
    Positive,
    ReadPath,
    Seed,
    Since,
    Threads,
    Whole,
)
from speculative_tts.schema.rules import RuleConfig


class System(Enum):
    """The system that produces the tokens of a decode run."""

    target = "target"  # the target alone, autoregressively
    draft = "draft"  # the draft alone, autoregressively
    speculative = "speculative"  # draft and target with an acceptance rule
    multi_token = "multi_token"  # the target's heads: n tokens a pass, none verified
    uncached = "uncached"  # the target alone, all recomputed for every token: a paper's baseline
    uncached_heads = "uncached_heads"  # multi_token, all recomputed for every block
    codec = "codec"  # no model: the reference recording through the codec, its upper bound
    reference = "reference"  # no model: the reference recording itself
    swap = "swap"  # no model: a target run, its tokens swapped within their groups (PCG, table 2)


MODEL = ("target", "sampling", "runtime", "seed", "timing", "processes")
STREAMED = (*MODEL, "chunk")
# Settings that a system reads beside those of every run; others make no other run.
READS: dict[System, tuple[str, ...]] = {
    System.target: STREAMED,
    System.draft: (*STREAMED, "draft", "baseline"),
    System.speculative: (*STREAMED, "drafter", "rule", "lookahead", "baseline", "instrument"),
    System.multi_token: (*STREAMED, "heads", "viterbi", "baseline"),
    System.uncached: (*MODEL, "baseline"),
    System.uncached_heads: (*MODEL, "heads", "viterbi", "baseline"),
    System.codec: (),
    System.reference: (),
    System.swap: ("target", "sampling", "seed", "rule", "source"),
}
BY_HEADS = (System.multi_token, System.uncached_heads)  # their tokens are the same
ALWAYS = ("system", "codec", "data", "limit")


class Repetition(Enum):
    """Versions of CosyVoice's repetition-aware sampler (`decoding.sampling.repetition_aware`)."""

    current = "current"  # from 2026-02-11: never the repeated id again; end of speech barred
    redraw_eos = "redraw_eos"  # until 2025-12-09: any id again; drawn again until not the end
    redraw_stops = "redraw_stops"  # in between: any id again; drawn again until no stop id


@dataclass
class SamplingConfig:
    """Sampler of target and draft alike; None: the checkpoint's own, from its speech.json."""

    temperature: NonNegative | None = None  # 0 is greedy
    top_k: Ids | None = None  # keep this many most likely tokens
    top_p: Nucleus | None = None  # keep the smallest set with this probability
    min_tokens_per_word: NonNegative | None = None  # the stop token is barred before
    max_tokens_per_word: PerWord | None = None  # decoding is cut after
    repetition_penalty: Positive | None = None  # of ids in prompt and speech so far; 1: none
    # the end is certain where it is the likeliest token, as in VALL-E's and USLM's own code
    end_when_likeliest: bool | None = None
    # may rows of a merged vocabulary that are no speech be emitted; false cuts the heads
    text_rows: bool | None = None
    # an id that fills ras_tau of the last ras_window tokens is drawn again (CosyVoice); 0: off
    ras_window: Ids | None = None
    ras_tau: Positive | None = None  # share of the window
    ras_variant: Repetition = Repetition.current  # version of the official sampler
    # another package's sampler, by the name of its entry point, made of the settings above; null:
    # the package's own
    sampler: Annotated[str | None, Since(None)] = None


class Kernels(Enum):
    """The code that computes a speech LM."""

    auto = "auto"  # on a CPU native, on a GPU triton, each where it can be had, else torch
    torch = "torch"
    native = (
        "native"  # compiled C++ (speculative_tts/native), for a CPU; an error without a compiler
    )
    triton = "triton"  # kernels in Triton (models/gpu), for a GPU; an error where it has none


class Capture(Enum):
    """The use of CUDA graphs for the steps of a loop."""

    auto = "auto"  # on a GPU
    off = "off"


class Speculate(Enum):
    """The batches that are decoded with drafts."""

    always = "always"
    paying = "paying"  # where it is faster than the target alone, tried once a size of batch


@dataclass
class RuntimeConfig:
    """Hardware of a run."""

    device: Device = Device.cpu
    dtype: DType = DType.float32  # of weights; distributions are always float32
    threads: Threads = 1  # of torch and of the native step
    kernels: Kernels = Kernels.auto
    # CUDA graphs of whole rounds; the tokens are the same
    graphs: Annotated[Capture, Since(Capture.auto)] = Capture.auto
    # paying: tokens hang on which is faster; the target alone obeys any rule
    speculate: Annotated[Speculate, Since(Speculate.always)] = Speculate.always
    warmup: Whole = 2  # utterances decoded before any clock starts


@dataclass
class HeadsConfig:
    """Multi-token heads of the target (`sst-train-heads`)."""

    path: ReadPath | None = None  # the folder
    n: Count | None = None  # use this many of them, the first ones; null: all


class Candidates(Enum):
    """The tokens that the path search may use at each of the n positions."""

    union = "union"  # the likeliest of any head
    perhead = "perhead"  # the likeliest of that position's head


class PathMode(Enum):
    """The way to choose the tokens of a multi-token block."""

    none = "none"  # each from its own head by the sampler, without looking at the others
    best = "best"  # the most probable path (Viterbi)
    sample = "sample"  # a path drawn from the distribution of all paths


@dataclass
class ViterbiConfig:
    """The choice of a block of n tokens from the heads (Nguyen et al., 2025)."""

    mode: PathMode = PathMode.sample
    candidates: Candidates = Candidates.union
    top_k: Whole = 3  # candidates of each head
    weight: NonNegative = 1.0  # of the log transition probabilities
    boundary: bool = False  # count the transition from the token before the block too
    temperature: NonNegative | None = None  # of the heads; null: the sampler's, 1 if that is greedy
    transitions: TransitionsConfig = field(default_factory=TransitionsConfig)


@dataclass
class EngineConfig:
    """Settings of an engine: models, rule, sampler, hardware."""

    target: CheckpointConfig = field(default_factory=CheckpointConfig)
    draft: CheckpointConfig = field(default_factory=CheckpointConfig)
    codec: CodecConfig = field(default_factory=CodecConfig)
    data: ListConfig = field(default_factory=ListConfig)
    drafter: DrafterConfig = field(default_factory=DrafterConfig)
    rule: RuleConfig = field(default_factory=RuleConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    heads: HeadsConfig = field(default_factory=HeadsConfig)
    viterbi: ViterbiConfig = field(default_factory=ViterbiConfig)
    # tokens drafted per round; auto: what pays best here, in seconds (sst-decode keeps it);
    # adaptive: 8 at most, until the draft is unsure (drafter=lm)
    lookahead: Lookahead = 3
    seed: Seed = 0  # same seed, same tokens

    @property
    def seeks_lookahead(self) -> bool:
        """True if the lookahead must be found by measurement."""
        return self.lookahead == AUTO


@dataclass
class DecodeConfig(EngineConfig):
    """sst-decode: one system over one test list."""

    system: System = System.speculative  # what produces the tokens
    limit: Count | None = None  # utterances of the list, evenly spread over it; None = all
    # utterances that are timed: decoded one by one, evenly spread over the list; null: all
    timing: Annotated[Whole, Since(None)] | None = 20
    # processes that time them in turn; 5 give an interval over processes too
    processes: Annotated[Count, Since(1)] = 1
    # so many of the others are decoded together; null: as many as pay
    batch_size: Count | None = None
    # processes (on a CPU) that decode the others, make audio and measure distortion, after timing
    workers: Threads = 1
    # decode what is timed by the target alone too, in the same process, for paired speedups
    baseline: bool = True
    # timed utterances decoded once more for distortion, and split times if the loop has no clock
    instrument: Whole = 20
    # decode what is timed once more as a stream of pieces of so many codes, for the time to first
    # audio; null: no stream
    chunk: Annotated[Count, Since(None)] | None = None
    # search rule.groups.mean_size (rule=group) or rule.beta (rule=tolerance) at seed 0 until the
    # rule is as fast as: 0.3, SSD with this beta; size:10.3, groups of this mean size;
    # length:3.2, so many tokens a round; speedup:1.4, that over the target alone by the clock
    match: str | None = None
    # system=swap: a finished target run; None = the one of the same settings in `out`
    source: ReadPath | None = None
    out: KeptPath = "runs"  # folder of the run folders
    # shared codes of prompts and the target's tokens; null: .caches in `out`
    cache: KeptPath | None = None
    # make nothing; say what is to be decoded and, from a short probe, about how long it takes
    plan: bool = False
    wandb: bool = False  # send the run's figures to wandb (extra: cluster)
