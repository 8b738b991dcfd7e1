"""Settings of sst-eval, sst-report and sst-check."""

from dataclasses import dataclass, field
from enum import Enum

from speculative_tts.schema.common import ClusterConfig, Device
from speculative_tts.schema.fields import (
    Count,
    Draws,
    KeptPath,
    Positive,
    ReadPath,
    Seed,
    Threads,
    WrittenPath,
)

Names = list[str]  # EvalConfig has a key called list, which hides the type of that name


class Recogniser(Enum):
    """The recogniser that transcribes speech."""

    pocketsphinx = "pocketsphinx"  # offline; two grammars
    # Whisper by faster-whisper on a CPU: weights=tiny.en, base or a folder (extra: whisper)
    faster_whisper = "faster_whisper"
    whisper = "whisper"  # Whisper large-v3 by transformers (SSD)
    openai_whisper = "openai_whisper"  # the same by OpenAI's own package, as the paper had it
    seedtts = "seedtts"  # Whisper large-v3 with seed-tts-eval's normaliser (English)
    paraformer = "paraformer"  # Paraformer by FunASR, by characters (seed-tts-eval, Chinese)
    hubert = "hubert"  # HuBERT-large CTC (PCG)
    conformer = "conformer"  # NeMo Conformer-Transducer large (MTP)


class Encoder(Enum):
    """The encoder that compares voices."""

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
    # files that a worker takes at once, which models that can hear together; null: 16 on a GPU or
    # for Ray's workers, else 1
    batch: Count | None = None
    # folder with one folder a model, as sst-check judges=<preset> names them
    models: ReadPath | None = None
    # of recogniser=faster_whisper: tiny.en, base, or a folder of CTranslate2 weights
    weights: str = "base"
    whisper: ReadPath | None = None  # folder of this model, if it is not below judges.models
    openai_whisper: ReadPath | None = None  # folder of this model
    paraformer: ReadPath | None = None  # folder of this model
    hubert: ReadPath | None = None  # folder of this model
    conformer: ReadPath | None = None  # folder of this model
    eres2net: ReadPath | None = None  # folder of this model
    wavlm: ReadPath | None = None  # folder of this model
    xvector: ReadPath | None = None  # folder of this model
    utmos: ReadPath | None = None  # folder of this model


@dataclass
class EvalConfig:
    """sst-eval: score decode runs, or any folder of audio given a list."""

    judges: JudgesConfig = field(default_factory=JudgesConfig)

    runs: KeptPath = "runs"  # one run folder, or a folder of run folders
    # JSONL (id, text, audio, prompt_audio): audio of another system instead of runs
    list: ReadPath | None = None
    out: WrittenPath | None = None  # where scores of such a list go
    wandb: bool = False  # send each run's figures to wandb (extra: cluster)
    # what judges measure (cer comes with wer); a preset of judges chooses the paper's
    metrics: Names = field(default_factory=lambda: ["wer", "similarity", "dnsmos"])
    # of these only what a paper's tables, figures and claims show of a run (ssd, pcg, mtp, or all);
    # a run that none of them shows is heard by all judges; null: so is every run
    paper: str | None = None
    # auto: word grammar when every word is in the tiny vocabulary, else the general model
    grammar: str = "auto"
    limit: Count | None = None  # utterances of each run; None = all
    # utterances that DNSMOS scores (it is the slowest judge); None = all
    dnsmos_limit: Count | None = 40
    workers: Threads = 2  # processes of cluster=local
    cluster: ClusterConfig = field(default_factory=ClusterConfig)  # who shares files out to judges
    draws: Draws = 10_000  # bootstrap draws of the confidence intervals
    unit: str = "utterance"  # of the bootstrap: utterance or speaker
    strict: bool = False  # exit code 3 when a judge or a figure of an utterance is missing
    seed: Seed = 0  # of the bootstrap
    # scored run folder that the others are compared with, utterance by utterance
    baseline: ReadPath | None = None
    # folder of transcripts and measurements; None = .scores beside the run folders
    cache: KeptPath | None = None


@dataclass
class ReportConfig:
    """sst-report: tables and figures beside the papers' from scored runs."""

    runs: ReadPath = "runs"  # folder of run folders, decoded by sst-decode and scored by sst-eval
    out: WrittenPath = "runs/results"  # the page; tables and figures go into <out>/<paper>
    # whose tables and figures: ssd, pcg, mtp, streaming, frontier (every rule and drafter),
    # drafters (by the clock), tiny (beside its goals), claims (what reproduces), or all; runs:
    # every scored run a row, as also where the paper's tables show none
    paper: str = "ssd"
    page: bool = True  # write index.html with audio inside, or renew these papers' part of it
    # name the command for each table or figure that lacks runs; exit code 3 if there is any
    strict: bool = False


class Checked(Enum):
    """The subject that sst-check looks at."""

    golden = "golden"  # golden files of one target
    judges = "judges"  # which judges can run here
    paper = "paper"  # what the papers' experiments lack here, and what they would cost


class Paper(Enum):
    """The paper whose experiments are meant."""

    ssd = "ssd"
    pcg = "pcg"
    mtp = "mtp"


@dataclass
class CheckTargetConfig:
    """The target that is checked."""

    # cosyvoice2, llasa, speechtokenizer, uslm, valle or viterbi; target=valle says the same
    name: str | None = None


@dataclass
class CheckConfig:
    """sst-check: results of this package beside golden files made by the official code."""

    target: CheckTargetConfig = field(default_factory=CheckTargetConfig)
    golden: ReadPath | None = None  # the folder of golden files
    folder: ReadPath | None = None  # a checkpoint: say what it is, and which configuration it takes
    # golden, judges (sst-check judges) or paper (sst-check paper)
    what: Checked = Checked.golden
    # folder of the papers' checkpoints; judges' are below <models>/judges
    models: ReadPath = "models"
    only: list[Paper] = field(default_factory=list)  # of judges and paper: what these papers need
    scoring: bool = True  # sst-check paper: look for judges too; false: runs are scored elsewhere
    # sst-check paper: where runs are decoded; cpu asks for no GPU (small checkpoints, tests)
    device: Device = Device.cuda
    preset: str | None = None  # of judges, in place of the papers' own: offline
    probe: bool = True  # sst-check paper: time steps of random weights to estimate hours
    # milliseconds of a target's pass, instead of the probe's: hours follow without a GPU
    step_ms: Positive | None = None
    out: WrittenPath | None = None  # a JSON file for the results
