"""Audio for the page: the same few utterances by every system, small enough to live in it."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speculative_tts.codecs.audio import readable
from speculative_tts.reporting.runs import Run

SPREAD = 3  # utterances spread evenly over the list


@dataclass(frozen=True)
class Word:
    """A word heard or missing: kind is equal, substitute, insert or delete."""

    text: str
    kind: str


@dataclass(frozen=True)
class Clip:
    """One system's version: audio as a data URI, and what the recogniser heard."""

    label: str
    audio: str
    heard: Sequence[Word]
    errors: int | None


@dataclass(frozen=True)
class Example:
    """One utterance by all systems, with its voice prompt."""

    id: str
    text: str
    speaker: str
    why: str
    prompt: str | None
    clips: Sequence[Clip]


@dataclass(frozen=True)
class _System:
    """A system's run with its rows of both files, by utterance."""

    label: str
    run: Run
    scores: Mapping[str, Mapping[str, Any]]
    records: Mapping[str, Mapping[str, Any]]

    def audio(self, key: str) -> Path:
        return Path(self.run.folder, self.records[key]["audio"])

    def has(self, key: str) -> bool:
        return key in self.scores and key in self.records and readable(self.audio(key))

    def errors(self, key: str) -> int:
        row = self.scores[key]
        return sum(row.get(name) or 0 for name in ("substitutions", "deletions", "insertions"))

    def clip(self, key: str) -> Clip:
        row, audio = self.scores[key], encode(self.audio(key))
        if row.get("hypothesis") is None:
            return Clip(self.label, audio, [], None)
        return Clip(self.label, audio, align(row["text"], row["hypothesis"]), self.errors(key))


def examples(systems: Mapping[str, Run], better: str, worse: str) -> list[Example]:
    """Some utterances that every system made, and the one on which `worse` loses most to `better`.

    `systems` maps row labels to runs. Utterances whose audio is gone or empty are not shown.
    """
    if not systems:
        return []
    made = {
        label: _System(label, run, run.rows("scores.jsonl"), run.rows("records.jsonl"))
        for label, run in systems.items()
    }
    first = next(iter(made.values()))
    shared = [key for key in first.scores if all(one.has(key) for one in made.values())]
    chosen = dict.fromkeys(_spread(shared), "evenly spread over the list")
    if better in made and worse in made:
        lost = {key: made[worse].errors(key) - made[better].errors(key) for key in shared}
        most = max(lost, key=lambda key: lost[key], default=None)
        if most is not None and lost[most] > 0:
            chosen.setdefault(most, f"where {worse} loses most words to {better}")
    return [_example(key, why, list(made.values())) for key, why in chosen.items()]


def _spread(keys: Sequence[str]) -> list[str]:
    count = min(SPREAD, len(keys))
    return [keys[(2 * i + 1) * len(keys) // (2 * count)] for i in range(count)]


def _example(key: str, why: str, systems: Sequence[_System]) -> Example:
    row = systems[0].records[key]
    prompt = systems[0].run.folder / row["prompt_audio"]
    return Example(
        key,
        row["text"],
        row.get("speaker", ""),
        why,
        encode(prompt) if readable(prompt) else None,
        [system.clip(key) for system in systems],
    )


def encode(path: Path) -> str:
    """An audio file as an MP3 data URI (MP3 for its size; the file itself stays as it is)."""
    import soundfile

    wave, rate = soundfile.read(path, dtype="float32")
    out = io.BytesIO()
    soundfile.write(out, wave, rate, format="MP3", subtype="MPEG_LAYER_III")
    return "data:audio/mpeg;base64," + base64.b64encode(out.getvalue()).decode()


def align(text: str, heard: str) -> list[Word]:
    """The words heard, marked by how they differ from the text; missing ones are in their place."""
    import jiwer

    if not text.split():
        return [Word(word, "insert") for word in heard.split()]
    out = jiwer.process_words(text.lower(), heard.lower())
    words = []
    for chunk in out.alignments[0]:
        if chunk.type == "delete":
            said = out.references[0][chunk.ref_start_idx : chunk.ref_end_idx]
        else:
            said = out.hypotheses[0][chunk.hyp_start_idx : chunk.hyp_end_idx]
        words += [Word(word, chunk.type) for word in said]
    return words
