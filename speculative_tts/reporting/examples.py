"""Gather what the page plays and shows: every utterance's words, and the audio of a few."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speculative_tts.assets import resolve
from speculative_tts.codecs.audio import readable
from speculative_tts.reporting.runs import Run
from speculative_tts.runs.folder import RECORDS, SCORES

SPREAD = 3  # utterances spread evenly over the list


@dataclass(frozen=True)
class Clip:
    """One system's version of an utterance: what the recogniser heard, its audio where it is shown.

    `heard` has [kind, word], kind equal, substitute, insert or delete; None: nobody listened.
    `strip` has a letter a token: first f, accepted a, residual r, bonus b, unverified u; and after
    each r how many drafts after it were thrown away.
    """

    system: str
    heard: Sequence[tuple[str, str]] | None
    errors: int | None
    strip: str = ""
    audio: str | None = None


@dataclass(frozen=True)
class HeardUtterance:
    """One utterance by all systems; `why` it is heard, and the voice prompt, where it is."""

    id: str
    text: str
    speaker: str
    clips: Sequence[Clip]
    why: str = ""
    prompt: str | None = None


@dataclass(frozen=True)
class Heard:
    """Systems in order, and the utterances that all of them made."""

    systems: Sequence[str] = ()
    utterances: Sequence[HeardUtterance] = ()


@dataclass(frozen=True)
class _System:
    """A system's run with its rows of both files, by utterance; a foreign one has scores alone."""

    label: str
    run: Run
    scores: Mapping[str, Mapping[str, Any]]
    records: Mapping[str, Mapping[str, Any]]

    def audio(self, key: str) -> Path:
        return Path(self.run.folder, (self.records.get(key) or self.scores[key])["audio"])

    def has(self, key: str) -> bool:
        return key in self.scores and readable(self.audio(key))

    def errors(self, key: str) -> int:
        row = self.scores[key]
        return sum(row.get(name) or 0 for name in ("substitutions", "deletions", "insertions"))

    def clip(self, key: str, *, sound: bool) -> Clip:
        row, record = self.scores[key], self.records.get(key, {})
        hypothesis = row.get("hypothesis")
        return Clip(
            self.label,
            None if hypothesis is None else align(row["text"], hypothesis),
            None if hypothesis is None else self.errors(key),
            strip(record),
            encode(self.audio(key)) if sound else None,
        )


def heard(systems: Mapping[str, Run], better: str, worse: str) -> Heard:
    """Return every utterance that all systems made, some of them with audio.

    Heard are some, and the one on which `worse` loses most to `better`; `systems` maps row labels
    to runs. Utterances whose audio is gone or empty are not shown.
    """
    made = {
        label: _System(label, run, run.rows(SCORES), run.rows(RECORDS))
        for label, run in systems.items()
    }
    if not made:
        return Heard()
    first = next(iter(made.values()))
    shared = [key for key in first.scores if all(one.has(key) for one in made.values())]
    chosen = dict.fromkeys(_spread(shared), "evenly spread over the list")
    if better in made and worse in made:
        lost = {key: made[worse].errors(key) - made[better].errors(key) for key in shared}
        most = max(lost, key=lambda key: lost[key], default=None)
        if most is not None and lost[most] > 0:
            chosen.setdefault(most, f"where {worse} loses most words to {better}")
    everyone = list(made.values())
    return Heard(list(made), [_utterance(key, chosen.get(key, ""), everyone) for key in shared])


def _spread(keys: Sequence[str]) -> list[str]:
    count = min(SPREAD, len(keys))
    return [keys[(2 * i + 1) * len(keys) // (2 * count)] for i in range(count)]


def _utterance(key: str, why: str, systems: Sequence[_System]) -> HeardUtterance:
    first = systems[0]
    row = first.records.get(key) or first.scores[key]
    prompt = first.run.folder / resolve(row.get("prompt_audio") or "")
    clips = [system.clip(key, sound=bool(why)) for system in systems]
    voice = encode(prompt) if why and readable(prompt) else None
    return HeardUtterance(key, row["text"], row.get("speaker", ""), clips, why, voice)


def strip(record: Mapping[str, Any]) -> str:
    """Return a letter for each token of a record, see `Clip`; empty without rounds."""
    if record.get("unverified"):
        return "u" * int(record["unverified"])
    rounds = (record.get("split") or {}).get("per_round")
    if not rounds:
        return ""
    told = "f"
    for drafted, accepted in rounds:
        rejected = accepted < drafted
        told += "a" * accepted + (f"r{drafted - accepted - 1 or ''}" if rejected else "b")
    tokens = 1 + sum(accepted + 1 for _, accepted in rounds)
    bare = tokens > record.get("tokens", tokens)
    return told[:-1] if bare else told  # no bonus behind a drafted stop id


def encode(path: Path) -> str:
    """Return an audio file as an MP3 data URI (MP3 for its size; the file stays as it is)."""
    import soundfile

    wave, rate = soundfile.read(path, dtype="float32")
    out = io.BytesIO()
    soundfile.write(out, wave, rate, format="MP3", subtype="MPEG_LAYER_III")
    return "data:audio/mpeg;base64," + base64.b64encode(out.getvalue()).decode()


def align(text: str, said: str) -> list[tuple[str, str]]:
    """Return the words heard, marked by how they differ from the text; missing ones too."""
    import jiwer

    if not text.split():
        return [("insert", word) for word in said.split()]
    out = jiwer.process_words(text.lower(), said.lower())
    words: list[tuple[str, str]] = []
    for chunk in out.alignments[0]:
        if chunk.type == "delete":
            found = out.references[0][chunk.ref_start_idx : chunk.ref_end_idx]
        else:
            found = out.hypotheses[0][chunk.hyp_start_idx : chunk.hyp_end_idx]
        words += [(chunk.type, word) for word in found]
    return words
