"""Audio for the page: the same few utterances by every system, small enough to live in it."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def examples(systems: Mapping[str, Run], better: str, worse: str) -> list[Example]:
    """Some utterances that every system made, and the one on which `worse` loses most to `better`.

    `systems` maps row labels to runs. Utterances whose audio is gone are not shown.
    """
    scores = {label: run.rows("scores.jsonl") for label, run in systems.items()}
    records = {label: run.rows("records.jsonl") for label, run in systems.items()}
    if not systems:
        return []
    shared = [
        key
        for key in next(iter(scores.values()))
        if all(key in scores[label] and key in records[label] for label in systems)
        and all(
            (run.folder / records[label][key]["audio"]).is_file() for label, run in systems.items()
        )
    ]
    chosen = dict.fromkeys(_spread(shared), "evenly spread over the list")
    if better in systems and worse in systems:
        lost = {key: _errors(scores[worse][key]) - _errors(scores[better][key]) for key in shared}
        most = max(lost, key=lambda key: lost[key], default=None)
        if most is not None and lost[most] > 0:
            chosen.setdefault(most, f"where {worse} loses most words to {better}")
    return [_example(key, why, systems, scores, records) for key, why in chosen.items()]


def _spread(keys: Sequence[str]) -> list[str]:
    count = min(SPREAD, len(keys))
    return [keys[(2 * i + 1) * len(keys) // (2 * count)] for i in range(count)]


def _errors(row: Mapping[str, Any]) -> int:
    return sum(row.get(name) or 0 for name in ("substitutions", "deletions", "insertions"))


def _example(
    key: str,
    why: str,
    systems: Mapping[str, Run],
    scores: Mapping[str, Mapping[str, Any]],
    records: Mapping[str, Mapping[str, Any]],
) -> Example:
    clips = []
    for label, run in systems.items():
        row = scores[label][key]
        audio = encode(run.folder / records[label][key]["audio"])
        known = row.get("hypothesis") is not None
        heard = align(row["text"], row["hypothesis"]) if known else []
        clips.append(Clip(label, audio, heard, _errors(row) if known else None))
    first, run = records[next(iter(systems))][key], next(iter(systems.values()))
    prompt = run.folder / first["prompt_audio"]
    return Example(
        key,
        first["text"],
        first.get("speaker", ""),
        why,
        encode(prompt) if prompt.is_file() else None,
        clips,
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
            words += [
                Word(w, "delete")
                for w in out.references[0][chunk.ref_start_idx : chunk.ref_end_idx]
            ]
        else:
            words += [
                Word(w, chunk.type)
                for w in out.hypotheses[0][chunk.hyp_start_idx : chunk.hyp_end_idx]
            ]
    return words
