"""Define an utterance of a corpus on disk, and import the library that reads corpora."""

import importlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Utterance:
    """An utterance's text and speaker, and the part of a recording that holds it."""

    id: str
    speaker: str
    split: str  # train, dev or test
    text: str
    audio: str
    start: float = 0.0  # seconds into the recording
    seconds: float | None = None  # None: to its end


def lhotse(module: str) -> Any:
    """Import a module of lhotse; raise ValueError, with the pip line, when it is not installed."""
    try:
        return importlib.import_module(f"lhotse.{module}")
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{error.name} is not installed; corpora are read by lhotse: "
            "pip install 'speculative_tts[corpora]'"
        ) from error
