"""Structured configurations of every command, in one place.

Each command's YAML names its schema first, so a typo or a wrong type fails before any work starts.
A `DictConfig` never travels past a command: `commands.app` turns it into these dataclasses. Paths
may start with `tiny:` for the shipped tiny assets (`tiny:target`), see `assets.resolve`.
"""

from dataclasses import dataclass, field
from enum import Enum

from omegaconf import MISSING

Names = list[str]  # EvalConfig has a key called list, which hides the type of that name


class System(Enum):
    """What produces the tokens of a decode run."""

    target = "target"  # the target alone, autoregressively
    draft = "draft"  # the draft alone, autoregressively
    speculative = "speculative"  # draft and target with an acceptance rule
    multi_token = "multi_token"  # the target's heads: n tokens a pass, none verified
    uncached = "uncached"  # the target alone, all recomputed for every token: a paper's baseline
    codec = (
        "codec"  # no model: the reference recording through the codec (upper bound of the codec)
    )
    reference = "reference"  # no model: the reference recording itself
    swap = "swap"  # no model: a target run, its tokens swapped within their groups (PCG, table 2)


WITHOUT_HEADS = ("heads", "viterbi")
WITHOUT_DRAFT = ("rule", "lookahead", "instrument", *WITHOUT_HEADS)
WITHOUT_MODEL = ("target", "draft", "sampling", "runtime", "baseline", "seed", *WITHOUT_DRAFT)
# Settings that a system does not read: they make no other run, and may differ within a table.
UNUSED: dict[System, tuple[str, ...]] = {
    System.target: ("draft", "baseline", *WITHOUT_DRAFT),
    System.draft: WITHOUT_DRAFT,
    System.speculative: WITHOUT_HEADS,
    System.multi_token: ("draft", "rule", "lookahead", "instrument"),
    System.uncached: ("draft", *WITHOUT_DRAFT),
    System.codec: WITHOUT_MODEL,
    System.reference: WITHOUT_MODEL,
    System.swap: (
        "draft",
        "baseline",
        "runtime",
        "lookahead",
        "instrument",
        "batch_size",
        "rule.name",
        "rule.beta",
        *WITHOUT_HEADS,
    ),
}


class Rule(Enum):
    """Acceptance rules of `decoding.acceptance`."""

    exact = "exact"
    tolerance = "tolerance"
    group = "group"


class Similarity(Enum):
    """What similarity of tokens is measured on."""

    embedding = "embedding"  # the target's input embeddings
    mel = "mel"  # log-mel frames of each token's sound


class Weights(Enum):
    """How a token's probability is split among its groups."""

    equal = "equal"
    unigram = "unigram"  # by how often a group's tokens are used


class Repetition(Enum):
    """Versions of CosyVoice's repetition-aware sampler (`decoding.ras`)."""

    current = "current"  # from 2026-02-11: never the repeated id again; end of speech barred
    redraw_eos = "redraw_eos"  # until 2025-12-09: any id again; drawn again until not the end
    redraw_stops = "redraw_stops"  # in between: any id again; drawn again until no stop id


class Cache(Enum):
    """What sst-precompute makes."""

    groups = "groups"  # acoustic similarity groups
    transitions = "transitions"  # how probable a code is after another


class Smoothing(Enum):
    """What pairs of codes that were never counted get (`caches.transitions` has the formulas)."""

    unigram = "unigram"  # their second code's share
    add = "add"  # a constant count
    floor = "floor"  # a share of the uniform law
    none = "none"  # nothing: they are impossible


class Candidates(Enum):
    """Which tokens the path search may use at each of the n positions."""

    union = "union"  # the likeliest of any head
    perhead = "perhead"  # the likeliest of that position's head


class PathMode(Enum):
    """How the tokens of a multi-token block are chosen."""

    none = "none"  # each from its own head by the sampler, without looking at the others
    best = "best"  # the most probable path (Viterbi)
    sample = "sample"  # a path drawn from the law of all paths


class HeadKind(Enum):
    """What a multi-token head is."""

    linear = "linear"  # one matrix
    residual = "residual"  # Medusa's block, then a matrix


class Optimiser(Enum):
    """Optimiser and schedule of heads."""

    adamw = "adamw"  # AdamW, warm-up and cosine
    scaled_adam = "scaled_adam"  # ScaledAdam and Eden, the VALL-E recipe's


class Device(Enum):
    """Where models run."""

    cpu = "cpu"
    cuda = "cuda"


class DType(Enum):
    """Number format of model weights; distributions are always float32."""

    float32 = "float32"
    bfloat16 = "bfloat16"


@dataclass
class RowsConfig:
    """Of LMs whose codes are vocabulary rows (LLaSA, NeuTTS): names of tokens, prompt, sampler."""

    code: str = "<|s_{}|>"  # token of a code; {} is its number
    end: str = "<|SPEECH_GENERATION_END|>"  # token that ends the speech
    # what the user says; {text} is the prompt's text and the text
    user: str = (
        "Convert the text to speech:<|TEXT_UNDERSTANDING_START|>{text}<|TEXT_UNDERSTANDING_END|>"
    )
    assistant: str = "<|SPEECH_GENERATION_START|>"  # what comes before the codes
    system: str | None = None  # a system message
    chat: bool = True  # write the prompt by the checkpoint's chat template; false: user + assistant
    bos: bool = False  # let the tokenizer add its special tokens (a chat template writes them)
    # date in a chat template that has one; None: what the template says, which may be today
    date: str | None = "26 Jul 2024"
    separator: str = ""  # between the prompt's text and the text
    phonemes: str | None = None  # espeak language of a checkpoint that reads phonemes (en-us)
    max_length: int = 2048  # tokens of prompt and speech together
    min_tokens: int = 0  # speech cannot end before
    temperature: float = 0.8  # the authors' sampler, unless sampling.* says otherwise
    top_k: int = 50  # the default of transformers, which the model cards leave unsaid
    top_p: float = 1.0  # 1: off
    repetition_penalty: float = 1.0  # 1: none
    text_rows: bool = True  # may rows that are no speech be emitted


@dataclass
class CheckpointConfig:
    """A speech LM checkpoint: a folder of one of the families of `models.families`."""

    name: str = MISSING  # shown in tables
    path: str = MISSING  # the folder
    # a draft takes its target's, as it does the instruction
    rows: RowsConfig = field(default_factory=RowsConfig)
    # of CosyVoice 3: said before every prompt's text, up to and with its <|endofprompt|>
    instruction: str | None = None


@dataclass
class CodecConfig:
    """Turns speech codes into audio and prompts into codes."""

    name: str = MISSING  # shown in tables
    path: str = MISSING  # the folder


@dataclass
class ListConfig:
    """A test list: JSONL rows of `records.ListItem`, audio paths relative to the file."""

    name: str = MISSING  # shown in tables
    path: str = MISSING  # the JSONL file


@dataclass
class GroupsConfig:
    """Acoustic similarity groups of the rule `group`; found in the cache or made."""

    source: Similarity = Similarity.embedding
    theta: float | None = None  # tokens with a cosine above it are similar; null: see mean_size
    mean_size: float = 10.0  # without theta: mean tokens of a group, for which theta is searched
    cap: int | None = None  # keep the most similar tokens of a group only; null: all
    weights: Weights = Weights.equal
    unigram: str = "data/tiny/codes"  # Parquet shards whose codes are counted for weights=unigram
    cache: str = "data/caches"  # folder of the caches
    path: str | None = None  # one cache folder instead, which must be the target's


@dataclass
class TransitionsConfig:
    """Transition probabilities between neighbouring codes; found in the cache or counted."""

    codes: str = "data/tiny/codes"  # Parquet shards whose training rows are counted
    column: str = "codes"  # list of codes; of nested lists the first layer
    smoothing: Smoothing = Smoothing.unigram
    strength: float = 1.0  # pseudo-counts of the smoothing; of floor the uniform share
    workers: int = 2  # processes that count
    cache: str = "data/caches"  # folder of the caches
    path: str | None = None  # one folder instead, which must be the codec's


@dataclass
class HeadsConfig:
    """Multi-token heads of the target (`sst-train-heads`)."""

    path: str | None = None  # the folder
    n: int | None = None  # use this many of them, the first ones; null: all


@dataclass
class ViterbiConfig:
    """How a block of n tokens is chosen from the heads (Nguyen et al., 2025)."""

    mode: PathMode = PathMode.sample
    candidates: Candidates = Candidates.union
    top_k: int = 3  # candidates of each head
    weight: float = 1.0  # of the log transition probabilities
    boundary: bool = False  # count the transition from the token before the block too
    temperature: float | None = None  # of the heads; null: the sampler's, 1 if that is greedy
    transitions: TransitionsConfig = field(default_factory=TransitionsConfig)


@dataclass
class RuleConfig:
    """Acceptance rule and its parameters (unused ones keep their default)."""

    name: Rule = Rule.exact
    beta: float = 0.0  # tolerance: accept when u < min(1, q/p) + beta
    groups: GroupsConfig = field(default_factory=GroupsConfig)


@dataclass
class SamplingConfig:
    """Sampler of target and draft alike; None: the checkpoint's own, from its speech.json."""

    temperature: float | None = None  # 0 is greedy
    top_k: int | None = None  # keep this many most likely tokens
    top_p: float | None = None  # keep the smallest set with this probability
    min_tokens_per_word: float | None = None  # the stop token is barred before
    max_tokens_per_word: float | None = None  # decoding is cut after
    repetition_penalty: float | None = None  # of ids in prompt and speech so far; 1: none
    # may rows of a merged vocabulary that are no speech be emitted; false cuts the heads
    text_rows: bool | None = None
    # an id that fills ras_tau of the last ras_window tokens is drawn again (CosyVoice); 0: off
    ras_window: int | None = None
    ras_tau: float | None = None  # share of the window
    ras_variant: Repetition = Repetition.current  # version of the official sampler


@dataclass
class RuntimeConfig:
    """Hardware of a run."""

    device: Device = Device.cpu
    dtype: DType = DType.float32  # of weights; distributions are always float32
    threads: int = 1  # of torch
    warmup: int = 2  # utterances decoded before any clock starts


@dataclass
class DecodeConfig:
    """sst-decode: one system over one test list."""

    target: CheckpointConfig = field(default_factory=CheckpointConfig)
    draft: CheckpointConfig = field(default_factory=CheckpointConfig)
    codec: CodecConfig = field(default_factory=CodecConfig)
    data: ListConfig = field(default_factory=ListConfig)
    rule: RuleConfig = field(default_factory=RuleConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    heads: HeadsConfig = field(default_factory=HeadsConfig)
    viterbi: ViterbiConfig = field(default_factory=ViterbiConfig)
    system: System = System.speculative  # what produces the tokens
    lookahead: int = 3  # tokens drafted per round
    seed: int = 0  # same seed, same tokens
    limit: int | None = None  # utterances of the list, evenly spread over it; None = all
    batch_size: int = 1  # utterances decoded together
    # decode each utterance autoregressively too, in the same process, for paired speedups
    baseline: bool = True
    instrument: int = 20  # utterances decoded once more with split timers and distortion
    # search rule.groups.mean_size (rule=group) or rule.beta (rule=tolerance) at seed 0 until the
    # rule is as fast as: 0.3, SSD with this beta; length:3.2, so many tokens a round; speedup:1.4,
    # so much faster than the target alone by the clock
    match: str | None = None
    # system=swap: a finished target run; None = the one of the same settings in `out`
    source: str | None = None
    out: str = "runs"  # folder of the run folders


class Recogniser(Enum):
    """Who hears the words."""

    pocketsphinx = "pocketsphinx"  # offline; two grammars
    whisper = "whisper"  # Whisper large-v3 (SSD)
    hubert = "hubert"  # HuBERT-large CTC (PCG)
    conformer = "conformer"  # NeMo Conformer-Transducer large (MTP)


class Encoder(Enum):
    """Who compares voices."""

    ge2e = "ge2e"  # offline
    eres2net = "eres2net"  # ERes2Net, VoxCeleb (SSD)
    wavlm = "wavlm"  # WavLM-large with an ECAPA head (PCG)
    xvector = "xvector"  # WavLM-base-plus with an x-vector head (MTP)


@dataclass
class JudgesConfig:
    """The judges, and where their models are; nothing is downloaded."""

    name: str = "offline"  # the preset
    recogniser: Recogniser = Recogniser.pocketsphinx  # of wer and cer
    encoder: Encoder = Encoder.ge2e  # of similarity
    device: Device = Device.cpu  # of models that can use a GPU; give workers=1 then
    # folder with one folder a model, as sst-check judges=<preset> names them
    models: str | None = None
    whisper: str | None = None  # folder of this model, if it is not below judges.models
    hubert: str | None = None  # folder of this model
    conformer: str | None = None  # folder of this model
    eres2net: str | None = None  # folder of this model
    wavlm: str | None = None  # folder of this model
    xvector: str | None = None  # folder of this model
    utmos: str | None = None  # folder of this model


@dataclass
class EvalConfig:
    """sst-eval: score decode runs, or any folder of audio given a list."""

    judges: JudgesConfig = field(default_factory=JudgesConfig)

    runs: str = "runs"  # one run folder, or a folder of run folders
    # JSONL (id, text, audio, prompt_audio): audio of another system instead of runs
    list: str | None = None
    out: str | None = None  # where scores of such a list go
    # any of wer, similarity, dnsmos, utmos; a preset of judges chooses the paper's
    metrics: Names = field(default_factory=lambda: ["wer", "similarity", "dnsmos"])
    # auto: word grammar when every word is in the tiny vocabulary, else the general model
    grammar: str = "auto"
    limit: int | None = None  # utterances of each run; None = all
    # utterances that DNSMOS scores (it is the slowest judge); None = all
    dnsmos_limit: int | None = 40
    workers: int = 2  # processes
    draws: int = 10_000  # bootstrap draws of the confidence intervals
    cluster: str = "utterance"  # unit of the bootstrap: utterance or speaker
    strict: bool = False  # exit code 3 when a judge is missing or an utterance is not scored
    seed: int = 0  # of the bootstrap
    # scored run folder that the others are compared with, utterance by utterance
    baseline: str | None = None
    # folder of transcripts and measurements; None = .scores beside the run folders
    cache: str | None = None


@dataclass
class ReportConfig:
    """sst-report: tables and figures beside the papers' from scored runs."""

    runs: str = "runs"  # folder of run folders, decoded by sst-decode and scored by sst-eval
    out: str = "results"  # folder of the page; tables and figures go into <out>/<paper>
    # whose tables and figures: ssd, pcg, mtp, tiny (the tiny system beside its goals), or all
    paper: str = "ssd"
    page: bool = True  # write index.html, with audio inside
    strict: bool = False  # exit code 3 when a table or figure lacks a run


@dataclass
class SpeakConfig:
    """sst-speak: text and a voice prompt in, a wav out."""

    target: CheckpointConfig = field(default_factory=CheckpointConfig)
    draft: CheckpointConfig = field(default_factory=CheckpointConfig)
    codec: CodecConfig = field(default_factory=CodecConfig)
    data: ListConfig = field(default_factory=ListConfig)
    rule: RuleConfig = field(default_factory=RuleConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    text: str = MISSING  # what to say; the tiny target knows the digits and the spelling alphabet
    # a wav, or a speaker of the test list; None = the list's first speaker
    prompt: str | None = None
    prompt_text: str | None = None  # words spoken in a prompt wav; null: what is recognised
    out: str = "out.wav"  # the wav
    lookahead: int = 3  # tokens drafted per round
    seed: int = 0  # same seed, same tokens


@dataclass
class LossConfig:
    """Weights of the draft's losses (`drafting.losses`); the paper's is cross entropy alone."""

    ce: float = 1.0  # cross entropy on the recorded token
    kl: float = 0.0  # forward KL to the target's distribution
    tv: float = 0.0  # 1 - acceptance probability
    lk: float = 0.0  # -log acceptance probability


class Selection(Enum):
    """Which dev figure picks the exported draft."""

    accuracy = "accuracy"  # the most likely token is the recorded one (SSD)
    acceptance = "acceptance"  # expected acceptance under the exact rule and the target's sampler


@dataclass
class TrainDraftConfig:
    """sst-train-draft: a layer-inherited draft (SSD section 2.2)."""

    target: CheckpointConfig = field(default_factory=CheckpointConfig)
    codes: str = "data/tiny/codes"  # Parquet shards written by sst-prepare
    out: str = "runs/draft"  # the exported draft, and its training
    layers: list[int] = field(default_factory=lambda: [0, 1, 10, 11])  # target layers, in order
    # an earlier draft of the same layers to go on from, in place of the target's weights
    init: str | None = None
    train_layers: int = 2  # this many first inherited layers are trained
    train_head: bool = True  # train the output head too
    train_embeddings: bool = False  # train the input embeddings too
    losses: LossConfig = field(default_factory=LossConfig)
    select: Selection = Selection.accuracy
    steps: int = 450
    batch_size: int = 16  # sequences that a process runs at once
    accumulate: int = 1  # batches of a process that make one step
    learning_rate: float = 2e-3
    muon: bool = False  # Muon for the layers' matrices (not sharded ones); false: AdamW for all
    warmup: int = 20  # steps of linear rise of the learning rate
    weight_decay: float = 0.01
    eval_every: int = 50  # steps between dev figures
    save_every: int = 50  # steps between checkpoints; a killed run continues at the last
    dev_utterances: int = 200  # held out for the dev figures
    seed: int = 0
    device: Device = Device.cpu
    dtype: DType = DType.float32  # bfloat16: autocast over float32 weights
    gradient_checkpointing: bool = False  # less memory for a third more time; the same result
    threads: int = 1  # of torch
    wandb: bool = False  # track with wandb (extra: cluster)


@dataclass
class TrainHeadsConfig:
    """sst-train-heads: heads that predict several tokens from a target's hidden state."""

    target: CheckpointConfig = field(default_factory=CheckpointConfig)
    codes: str = "data/tiny/codes"  # Parquet shards written by sst-prepare
    out: str = "runs/heads"  # the heads, and their training
    n: int = 8  # heads, the target's own among them
    kind: HeadKind = HeadKind.linear
    # train the trunk and its own head too; the trained target is written to <out>/target
    train_trunk: bool = False
    optimiser: Optimiser = Optimiser.adamw
    steps: int = 2000
    batch_size: int = 1024  # hidden states a step; with train_trunk sequences a step
    learning_rate: float = 2e-3  # of scaled_adam 0.05 is the paper's
    warmup: int = 100  # steps of linear rise of the learning rate
    weight_decay: float = 0.01
    eval_every: int = 500  # steps between dev figures
    save_every: int = 500  # steps between checkpoints; a killed run continues at the last
    # sequences whose hidden states are kept in memory; with train_trunk those of an epoch of Eden
    sequences: int = 4000
    dev_utterances: int = 200  # held out for the dev figures
    seed: int = 0
    device: Device = Device.cpu
    threads: int = 1  # of torch


@dataclass
class ImportConfig:
    """sst-import-valle: an official VALL-E or USLM checkpoint."""

    checkpoint: str = MISSING  # the .pt file of training, such as best-valid-loss.pt
    symbols: str = MISSING  # the unique_text_tokens.k2symbols that it was trained with
    heads: int | None = None  # attention heads, if the file does not say (official: 16)
    prefix_mode: int | None = None  # of the NAR: 0, 1, 2 or 4; null: what the file says, or 1
    phonemes: str = "en-us"  # espeak's language
    out: str = "models/valle"  # the folder


@dataclass
class PrecomputeConfig:
    """sst-precompute: what many runs of one target share."""

    cache: Cache = Cache.groups
    target: CheckpointConfig = field(default_factory=CheckpointConfig)
    codec: CodecConfig = field(default_factory=CodecConfig)
    groups: GroupsConfig = field(default_factory=GroupsConfig)
    transitions: TransitionsConfig = field(default_factory=TransitionsConfig)
    export: str | None = None  # write the counts of cache=transitions alone, compressed, here too
    device: Device = Device.cpu
    threads: int = 2  # of torch


class Corpus(Enum):
    """What sst-prepare prepares."""

    tiny = "tiny"  # spoken by Flite: codec, codes, dev and test list
    libritts = "libritts"  # codes of LibriTTS, read by lhotse
    libriheavy = "libriheavy"  # codes of Libriheavy, read by lhotse
    list = "list"  # a published test list as rows of this package


class ListFormat(Enum):
    """Published test lists."""

    unicats = "unicats"  # UniCATS test sets A and B: `utterance prompt` a line (LibriTTS ids)
    f5 = "f5"  # F5-TTS's cross-sentence list: six columns (LibriSpeech ids)
    seedtts = "seedtts"  # seed-tts-eval's meta.lst: id|prompt text|prompt wav|text[|wav]
    random = "random"  # no list: random utterances and prompts of the corpus (PCG)


@dataclass
class PrepareConfig:
    """sst-prepare: a corpus; `corpora.tiny.Recipe` adds what nobody changes."""

    corpus: Corpus = Corpus.tiny  # corpus=<name> also chooses the defaults of the others
    path: str | None = None  # where the corpus is: the folder with dev-clean, test-clean, ...
    # folders of LibriTTS, or libriheavy_cuts_<part>.jsonl.gz; for a list: where its ids are sought
    parts: Names = field(default_factory=list)
    audio: str | None = None  # Libriheavy: folder of the Libri-Light recordings; null: path
    codec: CodecConfig = field(default_factory=CodecConfig)  # the target's tokenizer
    shard_size: int = 1000  # utterances of a Parquet shard
    job: int = 0  # this process makes shards job, job + jobs, ...: job=0,1,2,3 jobs=4
    jobs: int = 1  # over how many processes or machines the shards are spread
    format: ListFormat = ListFormat.unicats  # of list_file
    list_file: str | None = None  # the published list
    rows: int | None = 500  # utterances of format=random; null: all
    keep_leaks: bool = False  # keep rows that are their own prompt
    allow_missing: bool = False  # leave out rows whose audio or text is missing

    n_takes: int = 9000  # utterances to speak
    n_codes: int = 2048  # entries of the codec's codebook
    test_rows_per_speaker: int = 8  # utterances of each speaker in the test list
    dev_rows_per_speaker: int = 4  # utterances of each speaker in the dev list
    workers: int = 2  # processes
    seed: int = 1  # of words, takes and codec
    out: str = "data/tiny"  # features/, codec/, codes/, dev/ and test/ go here


class Architecture(Enum):
    """Shape of the target that sst-train-target trains."""

    cosyvoice = "cosyvoice"  # CosyVoice 2's: a Qwen2 over text and codes
    valle = "valle"  # VALL-E's: an AR of the first layer of residual codes, a NAR of the others


@dataclass
class ValleTrainingConfig:
    """Of architecture=valle alone; `training.valle` says more."""

    dim: int = 160  # width of the AR
    heads: int = 5  # attention heads of the AR
    layers: int = 6  # of the AR
    nar_scale: float = 0.6  # the NAR's width, heads and layers over the AR's
    nar_steps: int = 1000  # optimiser steps of the NAR, after the AR's
    nar_decay_steps: int = 500  # linear fall of its learning rates to 0 at the end
    predictions: int = 8  # multi-token heads trained with the AR, its own among them
    prediction_weight: float = 0.3  # of each further head's cross entropy; the paper's is 1
    # further heads are trained on every so many positions, others at each step
    prediction_stride: int = 3


@dataclass
class TrainTargetConfig:
    """sst-train-target: the tiny target; `training.target.Recipe` adds what nobody changes.

    `family=valle` chooses the other architecture, and sets steps and folders for it.
    """

    architecture: Architecture = Architecture.cosyvoice
    valle: ValleTrainingConfig = field(default_factory=ValleTrainingConfig)
    prepared: str = "data/tiny"  # what sst-prepare wrote
    steps: int = 2750  # optimiser steps
    warmup_steps: int = 40  # linear rise of the learning rates
    decay_steps: int = 1000  # linear fall to 0 at the end
    matrix_lr: float = 0.003  # learning rate of matrices (Muon)
    other_lr: float = 0.005  # learning rate of everything else (AdamW)
    probe_weight: float = 0.5  # weight of the word probes that are thrown away after training
    # share of the way that embeddings move towards the codec's geometry, each step; 0: free
    acoustic_pull: float = 0.0
    watch_every: int = 400  # steps between word error rates on the dev list
    save_every: int = 100  # steps between checkpoints; a killed run continues at the last one
    compile: bool = False  # torch.compile: minutes to start, then faster
    threads: int = 2  # of torch
    seed: int = 1  # of weights and batches
    out: str = "runs/target"  # checkpoints, log and the exported target/


@dataclass
class BenchConfig:
    """sst-bench: engine speed on the same weights beside transformers', and each step's cost."""

    target: CheckpointConfig = field(default_factory=CheckpointConfig)
    draft: CheckpointConfig = field(default_factory=CheckpointConfig)
    codec: CodecConfig = field(default_factory=CodecConfig)
    data: ListConfig = field(default_factory=ListConfig)
    rule: RuleConfig = field(default_factory=RuleConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    lookahead: int = 3  # tokens drafted per round
    seed: int = 0
    limit: int = 10  # utterances of the list whose prompts are continued
    tokens: int = 100  # speech tokens of each continuation; stop ids do not end it
    transformers: bool = True  # also time transformers' generate and assisted generation
    steps: int = 200  # repeats of each single step that is timed; the median counts
    draws: int = 10_000  # bootstrap draws of the speed ratios
    # cosyvoice2 or llasa_1b: real size, random weights, instead of target, draft and list
    random: str | None = None
    out: str = "results/bench"  # a table for people and JSON for programs go here


class Checked(Enum):
    """What sst-check looks at."""

    golden = "golden"  # golden files of one target
    judges = "judges"  # which judges can run here
    paper = "paper"  # what the papers' experiments lack here, and what they would cost


class Paper(Enum):
    """Whose experiments."""

    ssd = "ssd"
    pcg = "pcg"
    mtp = "mtp"


@dataclass
class CheckTargetConfig:
    """What is checked."""

    # cosyvoice2, llasa, speechtokenizer, uslm, valle or viterbi; target=valle says the same
    name: str | None = None


@dataclass
class CheckConfig:
    """sst-check: results of this package beside golden files made by the official code."""

    target: CheckTargetConfig = field(default_factory=CheckTargetConfig)
    golden: str | None = None  # the folder of golden files
    # golden, judges (sst-check judges) or paper (sst-check paper)
    what: Checked = Checked.golden
    models: str = "models"  # folder of the papers' checkpoints; judges' are below <models>/judges
    only: list[Paper] = field(default_factory=list)  # of judges and paper: what these papers need
    scoring: bool = True  # sst-check paper: look for judges too; false: runs are scored elsewhere
    probe: bool = True  # sst-check paper: time steps of random weights to estimate hours
    out: str | None = None  # a JSON file for the results
