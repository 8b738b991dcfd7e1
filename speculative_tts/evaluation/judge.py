"""Define the interface of judges of speech.

A judge works in two steps. `load` returns the costly part, a function from a wave to a JSON value
(a transcript, an embedding, an opinion score): it depends on the audio alone, so it runs in worker
processes and its results are cached by the audio's hash. `score` is the cheap part: it turns the
measurements of a list into columns of `ScoreRow`. A judge is a frozen dataclass of its options,
imports nothing heavy before `load`, and reports by `missing` what it lacks on this machine.
"""

import functools
import importlib.metadata
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from speculative_tts.evaluation.audio import Wave
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.files import text_hash
from speculative_tts.typed import json_text

Measure = Callable[[Wave], Any]
Measures = Callable[[Sequence[Wave]], list[Any]]
Columns = dict[str, Any]


@dataclass(frozen=True)
class Measurement:
    """A judge's result for one audio file.

    The value is None for empty audio, which is flagged, and where the judge gave NaN or infinity.
    """

    value: Any
    flags: list[str] = field(default_factory=list)


class Judge(Protocol):
    """A judge of audio; hashable, so that a worker loads the model of each judge once."""

    def __hash__(self) -> int: ...

    @property
    def id(self) -> str:
        """Name of the judge with its mode, for instance `pocketsphinx-words`."""

    @property
    def version(self) -> str:
        """Version of the installed library or weights."""

    @property
    def options(self) -> dict[str, Any]:
        """Everything else that changes a measurement, hashes of weights included."""

    def missing(self) -> str | None:
        """Return one line on what is not installed and how to install it, or None."""

    def files(self, sample: ScoreRow) -> list[str]:
        """Return the audio files of a sample that must be measured."""

    def load(self) -> Measure:
        """Load the model as a function of a wave; called once per worker."""

    def score(self, samples: Sequence[ScoreRow], measured: Mapping[str, Any]) -> list[Columns]:
        """Return the columns of each sample, in order.

        `measured` maps audio files to measured values; None where audio is empty.
        """


class BatchJudge:
    """Base of judges whose model takes several waves at once, with the results of single ones."""

    def load_many(self) -> Measures:
        """Load the model as a function of waves; called once per worker instead of `load`."""
        raise NotImplementedError

    def load(self) -> Measure:
        """Load the model as a function of a wave."""
        return single(self.load_many())


def load_many(judge: Judge) -> Measures:
    """Load the model of any judge as a function of waves."""
    if isinstance(judge, BatchJudge):
        return judge.load_many()
    measure = judge.load()
    return lambda waves: [measure(wave) for wave in waves]


def single(measures: Measures) -> Measure:
    """Turn a function of waves into a function of one wave."""
    return lambda wave: measures([wave])[0]


class Opinion:
    """Base of judges that rate how the output sounds by one number; `metric` is its column."""

    metric: ClassVar[str]

    def files(self, sample: ScoreRow) -> list[str]:
        """Return the output's file."""
        return [sample.audio]

    def score(self, samples: Sequence[ScoreRow], measured: Mapping[str, Any]) -> list[Columns]:
        """Return the opinion column of each sample."""
        return [{self.metric: measured.get(sample.audio)} for sample in samples]


def describe(judge: Judge) -> dict[str, Any]:
    """Return a judge's entry in `summary.json`."""
    return {"id": judge.id, "version": judge.version, "options": judge.options}


@functools.cache
def signature(judge: Judge) -> str:
    """Return the key of a judge's cached measurements: id and a hash of version and options."""
    text = json_text([judge.version, judge.options], sort_keys=True)
    return f"{judge.id}-{text_hash(text)[:12]}"


def installed(*modules: str) -> bool:
    """Return True if all top-level modules can be found, without importing them."""
    return all(importlib.util.find_spec(module) is not None for module in modules)


def package_version(distribution: str) -> str:
    """Return the installed version of a distribution, or `not installed`."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
