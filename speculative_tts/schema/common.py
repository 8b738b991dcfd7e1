"""Settings that several stages share: checkpoints, codec, test list, caches, device."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

from omegaconf import MISSING

from speculative_tts.schema.fields import (
    Aside,
    Cosine,
    Count,
    KeptPath,
    NonNegative,
    Nucleus,
    Positive,
    ReadPath,
    Since,
    Size,
    Threads,
    Whole,
)


class Device(Enum):
    """The device that models run on."""

    cpu = "cpu"
    cuda = "cuda"


class Cluster(Enum):
    """The kind of workers that share the work."""

    local = "local"  # processes of this machine, as many as `workers` says
    ray = "ray"  # a Ray cluster (extra: ray)


@dataclass
class ClusterConfig:
    """Workers that share the pieces of work; the pieces of a lost one are done again."""

    name: Cluster = Cluster.local
    # of ray: an address such as host:6379, or auto; null: a cluster of this machine, for this alone
    address: str | None = None
    num_cpus: Positive | None = None  # of ray: cores that a piece asks for; null: its threads
    num_gpus: NonNegative = 0.0  # of ray: GPUs that a piece asks for; 0.5: two share one
    retries: Whole = 3  # how often a piece is begun again whose worker was lost


class DType(Enum):
    """Number format of model weights; distributions are always float32."""

    float32 = "float32"
    bfloat16 = "bfloat16"


@dataclass
class RowsConfig:
    """Layout of LMs whose codes are vocabulary rows (LLaSA, Orpheus): tokens, prompt, sampler."""

    code: str = "<|s_{}|>"  # token of a code; {} is its number
    first: Annotated[Whole, Since(0)] = 0  # number of code 0's token, where others come before
    count: Annotated[Count, Since(None)] | None = None  # codes; null: all that follow
    offset: Annotated[Whole, Since(None)] | None = None  # row of code 0, of `count` without names
    # positions of a frame of codes; each holds its own equal share of them (text_rows=false)
    slots: Annotated[Count, Since(1)] = 1
    # patterns of the codes of a frame's further positions, where each has tokens of its own
    more: Annotated[list[str], Since(())] = field(default_factory=list)
    # may the speech end within a frame; false: only after a whole one
    end_in_frame: Annotated[bool, Since(False)] = False
    end: str = "<|SPEECH_GENERATION_END|>"  # token that ends the speech
    # other tokens that end it
    ends: Annotated[list[str], Since(())] = field(default_factory=list)
    # what the user says; {text} is the prompt's text and the text, {speaker} the speaker's name,
    # {voice} the voice's global codes
    user: str = (
        "Convert the text to speech:<|TEXT_UNDERSTANDING_START|>{text}<|TEXT_UNDERSTANDING_END|>"
    )
    assistant: str = "<|SPEECH_GENERATION_START|>"  # what comes before the codes
    # what comes before it where there is a voice prompt, with {prompt_text} and {codes}; null: that
    # text comes before the text, and the codes last
    voice_turn: Annotated[str, Since(None)] | None = None
    # {speaker} of every prompt; null: the one that a list's row names, else the first of `speakers`
    speaker: Annotated[str, Since(None)] | None = None
    # names that the model knows; empty: it takes any words, such as a description of a voice
    speakers: Annotated[list[str], Since(())] = field(default_factory=list)
    voice: Annotated[str, Since(None)] | None = None  # token of a global code, such as <|g_{}|>
    voice_codes: Annotated[Count, Since(32)] = 32  # global codes of a voice
    system: str | None = None  # a system message
    chat: bool = True  # write the prompt by the checkpoint's chat template; false: user + assistant
    bos: bool = False  # let the tokenizer add its special tokens (a chat template writes them)
    # date in a chat template that has one; None: what the template says, which may be today
    date: str | None = "26 Jul 2024"
    separator: str = ""  # between the prompt's text and the text
    phonemes: str | None = None  # espeak language of a checkpoint that reads phonemes (en-us)
    max_length: Count = 2048  # tokens of prompt and speech together
    max_tokens: Annotated[Count, Since(None)] | None = None  # of speech alone; null: no own limit
    min_tokens: Whole = 0  # speech cannot end before
    temperature: NonNegative = 0.8  # the authors' sampler, unless sampling.* says otherwise
    top_k: Whole = 50  # the default of transformers, which the model cards leave unsaid
    top_p: Nucleus = 1.0  # 1: off
    repetition_penalty: Positive = 1.0  # 1: none
    # may rows that are no speech be emitted, and codes of any slot; false: what belongs there alone
    text_rows: bool = True

    @property
    def by_name(self) -> bool:
        """True if prompts name a speaker and have no place for a recording."""
        return "{speaker}" in self.user + self.assistant and self.voice_turn is None


@dataclass
class CheckpointConfig:
    """A speech LM checkpoint: the folder of a known family."""

    name: str = MISSING  # shown in tables
    path: ReadPath = MISSING  # the folder
    # a draft takes its target's, as it does the instruction
    rows: RowsConfig = field(default_factory=RowsConfig)
    # of CosyVoice 3: said before every prompt's text, up to and with its <|endofprompt|>
    instruction: str | None = None


@dataclass
class CodecConfig:
    """Turns speech codes into audio and prompts into codes."""

    name: str = MISSING  # shown in tables
    path: ReadPath = MISSING  # the folder


@dataclass
class ListConfig:
    """A test list: JSONL rows of `records.ListItem`, audio paths relative to the file."""

    name: str = MISSING  # shown in tables
    path: ReadPath = MISSING  # the JSONL file


class Similarity(Enum):
    """The vectors that the similarity of tokens is measured on."""

    embedding = "embedding"  # the target's input embeddings
    mel = "mel"  # log-mel frames of each token's sound
    codebook = "codebook"  # the codec's entries, of a codec that has them


class GroupWeights(Enum):
    """The split of a token's probability among its groups."""

    equal = "equal"
    unigram = "unigram"  # by how often a group's tokens are used


@dataclass
class GroupsConfig:
    """Acoustic similarity groups of the rule `group`; found in the cache or made."""

    source: Similarity = Similarity.embedding
    theta: Cosine | None = None  # tokens with a cosine above it are similar; null: see mean_size
    # instead of theta: mean tokens of a group, for which theta is searched; null: 10
    mean_size: Size | None = None
    cap: Count | None = None  # keep the most similar tokens of a group only; null: all
    weights: GroupWeights = GroupWeights.equal
    # Parquet shards whose codes are counted for weights=unigram
    unigram: ReadPath = "data/tiny/codes"
    cache: KeptPath = "runs/.caches"  # folder of the caches
    path: ReadPath | None = None  # one cache folder instead, which must be the target's

    @property
    def size(self) -> float:
        """The mean size that theta is searched for."""
        return 10.0 if self.mean_size is None else self.mean_size

    @property
    def label(self) -> list[str]:
        """Parts of a run's name: t0.5 (theta), m10 (mean size) or a cache, and the source."""
        size = f"m{self.size:g}" if self.theta is None else f"t{self.theta:g}"
        if self.path is not None:
            size = self.path.rstrip("/").rpartition("/")[2]
        return [size] if self.source is Similarity.embedding else [size, self.source.name]


class Smoothing(Enum):
    """The probability of pairs of codes that were never counted (see `caches.transitions`)."""

    unigram = "unigram"  # their second code's share
    add = "add"  # a constant count
    floor = "floor"  # a share of the uniform distribution
    none = "none"  # nothing: they are impossible


@dataclass
class TransitionsConfig:
    """Transition probabilities between neighbouring codes; found in the cache or counted."""

    codes: ReadPath = "data/tiny/codes"  # Parquet shards whose training rows are counted
    column: str = "codes"  # list of codes; of nested lists the first layer
    smoothing: Smoothing = Smoothing.unigram
    strength: Positive = 1.0  # pseudo-counts of the smoothing; of floor the uniform share
    workers: Annotated[Threads, Aside()] = 2  # processes that count
    cache: KeptPath = "runs/.caches"  # folder of the caches
    path: ReadPath | None = None  # one folder instead, which must be the codec's
