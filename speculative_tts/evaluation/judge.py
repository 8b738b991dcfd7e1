"""What a judge of speech is.

A judge works in two steps. `load` returns the costly part, a function from a wave to a JSON value
(a transcript, an embedding, an opinion score): it depends on the audio alone, so it runs in worker
processes and its results are cached by the audio's hash. `score` is the cheap part: it turns the
measurements of a list into columns of `ScoreRow`. A judge is a frozen dataclass of its options,
imports nothing heavy before `load`, and says by `missing` whether it can run here at all.
"""

import functools
import importlib.metadata
import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from speculative_tts.evaluation.audio import Wave
from speculative_tts.files import text_hash
from speculative_tts.records import DecodeRecord

Measure = Callable[[Wave], Any]
Measures = Callable[[Sequence[Wave]], list[Any]]
Columns = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """One utterance to be judged: what should be said, and the files that hold it.

    Paths are absolute.
    """

    id: str
    text: str
    audio: str
    speaker: str = ""
    system: str = ""  # who spoke, where a list has several
    seed: int = 0
    prompt_audio: str | None = None
    reference_audio: str | None = None
    record: DecodeRecord | None = None  # None for the audio of another system

    @property
    def voice(self) -> str:
        """Who should be heard: the speaker, or the prompt where a list names no speakers."""
        return self.speaker or self.prompt_audio or ""


@dataclass(frozen=True)
class Heard:
    """What a judge measured of one audio file; value None, with a flag, for empty audio."""

    value: Any
    flags: list[str] = field(default_factory=list)


class Judge(Protocol):
    """A metric that listens.

    Implementations are hashable, so workers can keep one loaded model a judge.
    """

    def __hash__(self) -> int: ...

    @property
    def id(self) -> str:
        """Name of the judge with its mode, for instance `pocketsphinx-words`."""

    @property
    def version(self) -> str:
        """Version of what was installed."""

    @property
    def options(self) -> dict[str, Any]:
        """Everything else that changes a measurement, hashes of weights included."""

    def missing(self) -> str | None:
        """None, or one line: what is not installed and the pip line that installs it."""

    def files(self, sample: Sample) -> list[str]:
        """Audio files of a sample that must be measured."""

    def load(self) -> Measure:
        """The loaded model as a function of a wave. Called once a worker."""

    def score(self, samples: Sequence[Sample], measured: Mapping[str, Any]) -> list[Columns]:
        """Columns of each sample, in order.

        `measured` maps audio files to measurements; None where audio is empty.
        """


@runtime_checkable
class BatchJudge(Judge, Protocol):
    """A judge whose model takes several waves at once, each heard as if it were alone."""

    def load_many(self) -> Measures:
        """The loaded model as a function of waves. Called once a worker, in place of `load`."""


def load_many(judge: Judge) -> Measures:
    """The loaded model of any judge as a function of waves."""
    if isinstance(judge, BatchJudge):
        return judge.load_many()
    measure = judge.load()
    return lambda waves: [measure(wave) for wave in waves]


def one_of(measures: Measures) -> Measure:
    """What takes waves as a function of one."""
    return lambda wave: measures([wave])[0]


class Opinion:
    """Base of judges that score how the output sounds, with one number; `metric` is its column."""

    metric: ClassVar[str]

    def files(self, sample: Sample) -> list[str]:
        """The output."""
        return [sample.audio]

    def score(self, samples: Sequence[Sample], measured: Mapping[str, Any]) -> list[Columns]:
        """The column."""
        return [{self.metric: measured.get(sample.audio)} for sample in samples]


def describe(judge: Judge) -> dict[str, Any]:
    """What `summary.json` says about a judge."""
    return {"id": judge.id, "version": judge.version, "options": judge.options}


@functools.cache
def signature(judge: Judge) -> str:
    """Key of a judge's cached measurements: id and a hash of version and options."""
    text = json.dumps([judge.version, judge.options], sort_keys=True)
    return f"{judge.id}-{text_hash(text)[:12]}"


def installed(*modules: str) -> bool:
    """Whether all top-level modules can be found, without importing them."""
    return all(importlib.util.find_spec(module) is not None for module in modules)


def package_version(distribution: str) -> str:
    """Installed version of a distribution, or `not installed`."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
