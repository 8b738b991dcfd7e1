"""Define the key to a listening test: the identity of every blind clip, and each rater's trials.

It stays with the experimenter (`key.json`); raters get the trials alone (`public`).
"""

import dataclasses
from dataclasses import dataclass, field
from enum import Enum
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from speculative_tts.files import text_hash
from speculative_tts.provenance import plain
from speculative_tts.schema.fields import Whole
from speculative_tts.schema.listen import ListeningTest
from speculative_tts.typed import json_text, read_json, typed, write_json

KEY, SITE, ANSWERS = "key.json", "site", "answers"


class Role(Enum):
    """Purpose of a clip in the test."""

    system = "system"
    prompt = "prompt"  # the voice to compare with
    high = "high"  # a check that anybody rates high
    low = "low"  # a check that anybody rates low


@dataclass(frozen=True)
class BlindClip:
    """Identity of a blind file."""

    role: Role
    utterance: str
    system: str = ""


@dataclass(frozen=True)
class Trial:
    """One screen: files to judge, in order, perhaps a reference, a text and training's `note`."""

    clips: list[str]
    reference: str | None = None
    text: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class RatingScale:
    """The allowed answers, `least` to `most` in steps of 1, and their meanings."""

    question: str
    least: int
    most: int
    words: dict[str, str]


def _scales() -> dict[ListeningTest, RatingScale]:
    text = resources.files("speculative_tts.listening").joinpath("scales.yaml").read_text()
    return {ListeningTest[name]: RatingScale(**one) for name, one in yaml.safe_load(text).items()}


SCALES = _scales()


@dataclass(frozen=True)
class ComparedSystem:
    """A system under test: its name, and the folder of its run."""

    name: str
    folder: str
    run: bool = True  # False: another system's audio


@dataclass(frozen=True)
class Key:
    """A whole test: its systems, clips and trials."""

    id: str
    test: ListeningTest
    systems: list[ComparedSystem]  # the first is the baseline
    clips: dict[str, BlindClip]
    training: list[Trial]
    raters: list[list[Trial]]
    samples: Whole
    made: dict[str, Any] = field(default_factory=dict)  # settings and provenance

    @property
    def scale(self) -> RatingScale:
        """The scale of the answers."""
        return SCALES[self.test]

    def is_check(self, trial: Trial) -> bool:
        """Return True if a trial only checks the rater's attention."""
        return any(self.clips[one].role in (Role.high, Role.low) for one in trial.clips)

    def write(self, folder: Path) -> None:
        """Write the key beside the site, never inside it."""
        write_json(folder / KEY, plain(self))


def read_key(folder: Path) -> Key:
    """Read the key in a test's folder; raise ValueError where there is none."""
    path = folder / KEY
    key = typed(Key, read_json(path, f"sst-listen make folder={folder} writes one"), path)
    known = key.clips.keys()
    unknown = {one for trials in key.raters for trial in trials for one in trial.clips} - known
    if unknown or not key.systems:
        raise ValueError(f"{path} is not whole; make the test again")
    return key


def hash_test(clips: dict[str, BlindClip], raters: list[list[Trial]]) -> str:
    """Return the test's id: a hash of all clips and trials."""
    text = json_text([sorted(clips), [[dataclasses.asdict(one) for one in r] for r in raters]])
    return text_hash(text)[:12]


def public(key: Key) -> dict[str, Any]:
    """Return the data for raters' browsers, without the identity of any clip."""
    return {
        "id": key.id,
        "test": key.test.name,
        "scale": dataclasses.asdict(key.scale),
        "training": [dataclasses.asdict(one) for one in key.training],
        "raters": [[dataclasses.asdict(one) for one in trials] for trials in key.raters],
    }
