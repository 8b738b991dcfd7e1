"""Define an utterance that is scored, and its row of `scores.jsonl`, counts only."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from speculative_tts.assets import resolve
from speculative_tts.evaluation.audio import seconds
from speculative_tts.records import SCORED, SPLIT, TIMED, Clock, DecodeRecord, columns_marked
from speculative_tts.typed import typed

NO_CODES = "no_codes"  # flag of an utterance that ended at once; its audio is a short silence


@dataclass(frozen=True)
class ScoreRow:
    """One utterance of a run or of another system; scores and raw counts are flat in its file.

    `columns` holds the judges' columns, durations, `seen` (was the speaker in training; None where
    the list does not say), and the decode record's counts, which are missing where no language
    model ran (the reference recording, the codec, another system's audio). `row["words"]` is None
    where nothing was measured.
    """

    id: str
    text: str
    audio: str
    speaker: str = ""
    system: str = ""  # who spoke, where a list has several
    seed: int = 0
    prompt_audio: str | None = None
    reference_audio: str | None = None
    # reason why the utterance could not be scored; it then has no columns of judges
    error: str | None = None
    # empty_audio, silent_audio, empty_text, empty_hypothesis, numerals, signs, other_script,
    # no_codes, prompt_unreadable
    flags: list[str] = field(default_factory=list)
    columns: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, column: str) -> Any:
        return self.columns.get(column)

    @property
    def voice(self) -> str:
        """The speaker's identity: the speaker, or the prompt where a list names no speakers."""
        return self.speaker or self.prompt_audio or ""

    def flat(self) -> dict[str, Any]:
        """Return the row as it is written: columns beside some of the other fields."""
        return {name: getattr(self, name) for name in OWN} | dict(self.columns)

    def inside(self, folder: Path) -> "ScoreRow":
        """Return the row with its audio's place in a folder, if it is there."""
        audio = Path(self.audio)
        there = audio.is_relative_to(folder)
        return replace(self, audio=str(audio.relative_to(folder))) if there else self


PROMPTS = ("prompt_audio", "reference_audio")
LISTED = ("id", "text", "audio", "speaker", "system", "seed", *PROMPTS)  # that a list may give
OWN = ("id", "speaker", "seed", "text", "audio", "error", "flags")  # in the file


def read_row(row: dict[str, Any]) -> ScoreRow:
    """Read a row as `flat` wrote it."""
    own = {name: value for name, value in row.items() if name in OWN}
    columns = {name: value for name, value in row.items() if name not in OWN}
    return typed(ScoreRow, own | {"columns": columns}, f"score of {row.get('id')}")


def row_of(folder: Path, record: DecodeRecord) -> ScoreRow:
    """Return the row of a run's utterance before any judge."""
    counts = decode_counts(record)
    return ScoreRow(
        **_places(folder, record),
        id=record.id,
        text=record.text,
        speaker=record.speaker,
        seed=record.seed,
        flags=[NO_CODES] if counts and not record.codes else [],
        columns=_columns(folder, record, record.seen, record.audio_seconds) | counts,
    )


def foreign_row(folder: Path, given: ScoreRow) -> ScoreRow:
    """Return the row of another system's audio before any judge; its list is in the folder."""
    columns = _columns(folder, given, None, seconds(folder / given.audio))
    return replace(given, **_places(folder, given), columns=columns)


def _places(folder: Path, of: DecodeRecord | ScoreRow) -> dict[str, Any]:
    """Return the paths of an utterance's audio in full."""
    prompts = {name: getattr(of, name) for name in PROMPTS}
    paths = {"audio": of.audio, **prompts}
    return {name: str(folder / resolve(path)) if path else None for name, path in paths.items()}


def _columns(
    folder: Path, of: DecodeRecord | ScoreRow, seen: bool | None, length: float | None
) -> dict[str, Any]:
    place = of.reference_audio
    reference = seconds(folder / resolve(place)) if place else None
    return {"seen": seen, "audio_seconds": length, "reference_seconds": reference}


def decode_counts(record: DecodeRecord) -> dict[str, Any]:
    """Return the decoder's columns of a row; none where no language model ran (no seconds, rounds).

    A swapped run has counts, but no seconds: its tokens are another run's.
    """
    if record.swapped is not None:
        return {name: getattr(record, name) for name in ("tokens", "stop", "swapped")}
    if record.lm_seconds == 0 and record.counts.rounds == 0:
        return {}
    own = columns_marked(record, SCORED)
    if record.lm_seconds is not None:  # only some utterances are timed
        times = columns_marked(record, TIMED)
        own |= {name: value for name, value in times.items() if value is not None}
    clocks = list(map(_clocked, record.clocks or ()))
    parts = [name for name in SPLIT if clocks and all(name in clock for clock in clocks)]
    means = {name: fmean(clock[name] for clock in clocks) for name in parts}
    split = vars(record.split) if record.split else {}
    counts = record.counts.columns() if record.counts.rounds else {}
    stream = record.arrivals.heard() if record.arrivals else {}
    return own | ({"clocks": clocks} if clocks else {}) | counts | stream | split | means


def _clocked(clock: Clock) -> dict[str, Any]:
    """Return the columns of a row that one process measured."""
    own = {name: value for name, value in vars(clock).items() if value is not None}
    arrivals = own.pop("arrivals", None)
    return own | (arrivals.heard() if arrivals else {})
