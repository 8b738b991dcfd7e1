"""Define the typed rows that travel between stages, and read and write them.

Rows that people read (lists, decode records, scores) are JSONL, one JSON object per line. Growing
files are appended a line at a time: a line survives a kill at once, and one cut short by a kill is
dropped on the next start. Other files are written whole (`files.writing`).
"""

import dataclasses
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from speculative_tts.assets import require
from speculative_tts.files import naming_errors, write_all, write_atomic
from speculative_tts.ids import check_names
from speculative_tts.typed import FLAT, json_object, json_text, short, typed

Row = TypeVar("Row")
GIVEN = {"given": True}  # metadata of a field that a file has only where it is not None


@dataclass(frozen=True)
class ListItem:
    """One utterance of a test list. Audio paths are absolute once read by `read_list`."""

    id: str
    text: str
    prompt_audio: str = ""  # of a target that follows no recording
    prompt_text: str = ""
    speaker: str = ""
    reference_audio: str | None = None
    seen: bool | None = None  # was the speaker trained on
    # of system=codec: codes of the reference, a list a layer, in place of encoding it
    reference_codes: tuple[tuple[int, ...], ...] | None = field(default=None, metadata=GIVEN)
    # global codes of the voice, of a target that reads them (Spark-TTS)
    voice_codes: tuple[int, ...] | None = field(default=None, metadata=GIVEN)


@dataclass(frozen=True)
class Split:
    """Seconds by part of the round, and an instrumented decode's distortion.

    The seconds are of the timed decode where its rounds clock themselves (native ones), else of the
    instrumented one. tv and kl are sums over `positions` verified positions; the lists are by depth
    in the round. Of the group rule alone, and not in old records: expected_trials /
    expected_rejections are the draws that the paper's loop (thinning) would need after a rejection.
    """

    draft_seconds: float
    verify_seconds: float
    accept_seconds: float
    tv: list[float]
    kl: list[float]
    positions: list[int]
    expected_rejections: list[float] | None = None
    expected_trials: list[float] | None = None
    per_round: list[list[int]] | None = None  # drafted and accepted tokens, round by round


@dataclass(frozen=True)
class Arrivals:
    """Arrival times of a streamed utterance's pieces, since the request, and their lengths.

    Both in seconds, piece by piece.
    """

    seconds: list[float]
    lengths: list[float]

    def heard(self) -> dict[str, Any]:
        """Return the figures of a listener who plays the stream from its first piece on.

        A gap (an underrun) is silence because the next piece is late; then it goes on with it.
        """
        gaps, silent, played_until = 0, 0.0, self.seconds[0]
        for arrival, length in zip(self.seconds, self.lengths, strict=True):
            if arrival > played_until:
                gaps, silent, played_until = gaps + 1, silent + arrival - played_until, arrival
            played_until += length
        return {
            "first_audio_ms": 1000 * self.seconds[0],
            "stream_seconds": self.seconds[-1],
            "stream_audio_seconds": sum(self.lengths),
            "gaps": gaps,
            "gap_ms": 1000 * silent,
        }


@dataclass(frozen=True)
class Clock:
    """Seconds of an utterance in one process, and how fast its memory was then (GB/s of a core).

    `arrivals` are of the same utterance streamed there, where that is asked for.
    """

    lm_seconds: float
    prefill_seconds: float | None = None
    baseline_seconds: float | None = None
    baseline_prefill_seconds: float | None = None
    draft_seconds: float | None = None  # of rounds that clock themselves (native ones)
    verify_seconds: float | None = None
    accept_seconds: float | None = None
    nar_seconds: float | None = None
    codec_seconds: float | None = None
    flow_seconds: float | None = None
    memory: float | None = None
    arrivals: Arrivals | None = None


SPLIT = ("draft_seconds", "verify_seconds", "accept_seconds")  # of a round
# of a clock, which a record has as their means over processes
SECONDS = (
    "lm_seconds",
    "prefill_seconds",
    "baseline_seconds",
    "baseline_prefill_seconds",
    "nar_seconds",
    "codec_seconds",
    "flow_seconds",
)


@dataclass(frozen=True)
class Counts:
    """Raw counts of decoding an utterance; ratios are computed when scores are aggregated."""

    rounds: int = 0
    drafted_per_position: list[int] = field(default_factory=list)  # those that were verified
    accepted_per_position: list[int] = field(default_factory=list)  # after the cut at a stop id
    residuals: int = 0
    bonuses: int = 0
    residual_fallbacks: int = 0
    passes: int = 0  # trunk passes of a multi-token run, each of several tokens
    unverified: int = 0  # emitted tokens that the target never verified: the output is lossy
    dead_blocks: int = 0  # passes in which no path through the heads' candidates was possible

    @property
    def drafted(self) -> int:
        """Drafted tokens at all positions."""
        return sum(self.drafted_per_position)

    @property
    def accepted(self) -> int:
        """Accepted tokens at all positions."""
        return sum(self.accepted_per_position)

    def columns(self) -> dict[str, Any]:
        """Return the counts as they are written: flat, with their sums."""
        return {"drafted": self.drafted, "accepted": self.accepted, **dataclasses.asdict(self)}


SCORED = {"scored": True}  # a column of the utterance's score row
# a column of the score row of an utterance that was timed, left out where it is None
TIMED = {"timed": True}


@dataclass(frozen=True)
class DecodeRecord:
    """One decoded utterance."""

    id: str
    speaker: str
    text: str
    prompt_text: str
    prompt_audio: str
    reference_audio: str | None
    seed: int
    audio: str  # relative to the run folder
    codes: list[int]  # speech codes without the stop id
    tokens: int = field(metadata=SCORED)  # emitted tokens, the stop id included
    stop: str = field(metadata=SCORED)  # stop_id | max_length
    audio_seconds: float
    # prefill included; None of an utterance that was not timed
    lm_seconds: float | None = field(metadata=SCORED)
    counts: Counts = field(default_factory=Counts, metadata=FLAT)
    # the same utterance timed, target alone, same process
    baseline_tokens: int | None = field(default=None, metadata=SCORED)
    baseline_seconds: float | None = field(default=None, metadata=SCORED)
    # of lm_seconds and baseline_seconds, until the first token
    prefill_seconds: float | None = field(default=None, metadata=TIMED)
    baseline_prefill_seconds: float | None = field(default=None, metadata=TIMED)
    # in several processes: those of each; the seconds above are their means
    clocks: list[Clock] | None = field(default=None, metadata=GIVEN)
    split: Split | None = None
    # of the same utterance decoded once more, in pieces (by the first of several processes)
    arrivals: Arrivals | None = None
    # further layers of codes, not counted in lm_seconds
    nar_seconds: float | None = field(default=None, metadata=TIMED)
    codec_seconds: float | None = field(default=None, metadata=TIMED)  # codes to audio
    # of codec_seconds, in a codec's flow; the rest is its vocoder
    flow_seconds: float | None = field(default=None, metadata=TIMED)
    swapped: int | None = None  # system=swap: codes that another of their group replaced
    seen: bool | None = None  # was the speaker trained on; None where the list does not say
    # of a target with a depth decoder: whole frames of codes, and the codes of each
    frames: int | None = field(default=None, metadata=GIVEN)
    codebooks: int | None = field(default=None, metadata=GIVEN)


def columns_marked(record: DecodeRecord, mark: Mapping[str, bool]) -> dict[str, Any]:
    """Return the record's fields that have this mark, `SCORED` or `TIMED`."""
    marked = (entry.name for entry in dataclasses.fields(record) if entry.metadata == mark)
    return {name: getattr(record, name) for name in marked}


def to_row(record: Any) -> dict[str, Any]:
    """Convert a dataclass row to a JSON object; `FLAT` fields become columns of the row."""
    row = dataclasses.asdict(record)
    for entry in dataclasses.fields(record):
        if entry.metadata == FLAT:
            del row[entry.name]
            row |= getattr(record, entry.name).columns()
        elif entry.metadata == GIVEN and row[entry.name] is None:
            del row[entry.name]
    return row


def read_rows(
    path: Path, cls: type[Row], *, whole: bool = False, only: Collection[str] = ()
) -> Iterator[Row]:
    """Read a JSONL file's rows as objects of a dataclass, ignoring unknown keys.

    With `only` other keys are ignored too. Raise ValueError with file, line, fault and remedy.
    """
    for where, row in _lines(path, whole):
        yield typed(cls, {k: row[k] for k in row if k in only} if only else row, where)


def read_jsonl(path: Path, *needed: str) -> Iterator[dict[str, Any]]:
    """Read a JSONL file's objects; raise ValueError for one without a text or number `needed`.

    A last line that a kill cut short is skipped.
    """
    for where, row in _lines(path, whole=False):
        for key in needed:
            if not isinstance(row.get(key), str | int):
                what = f"is {short(row[key])}" if key in row else "is missing"
                raise ValueError(f"{where}: {key} {what}; make the file again")
        yield row


def _lines(path: Path, whole: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield places and objects of a JSONL file; a torn end is skipped unless it must be `whole`."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                row = json_object(line, where, "give one a line, in UTF-8")
            except ValueError:
                if not (whole or line.endswith(b"\n")):
                    return
                raise
            yield where, row


def write_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write a whole JSONL file atomically; ValueError for a number that is NaN or infinite."""
    write_atomic(path, "".join(json_text(row, path) + "\n" for row in rows))


class Appender:
    """A growing JSONL file that survives kills: each row is in the file when `append` returns.

    A power failure may take the rows since the last `sync`, which `close` does too.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with naming_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab+", buffering=0)
            self._drop_torn_line()

    def _drop_torn_line(self) -> None:
        """End the file with a whole line, as `read_jsonl` reads it."""
        self._file.seek(0)
        data = self._file.read()
        end = data.rfind(b"\n") + 1
        try:
            json.loads(data[end:])
            self._file.write(b"\n")
        except ValueError:  # not JSON, not UTF-8
            self._file.truncate(end)

    def append(self, row: dict[str, Any]) -> None:
        """Write one row; ValueError for a number that is NaN or infinite."""
        line = f"{json_text(row, self._path)}\n".encode()
        with naming_errors(self._path):
            write_all(self._file, line)

    def sync(self) -> None:
        """Wait until the rows are on disk."""
        with naming_errors(self._path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Wait until the rows are on disk, and close the file."""
        with self._file:
            self.sync()


def read_list(path: Path) -> list[ListItem]:
    """Read a test list; relative audio paths are taken from the list's folder, and made absolute.

    Raises ValueError for rows that cannot be decoded into a folder: an id names a file in it.
    """
    if not require(path).is_file():
        raise ValueError(f"{path} is no test list; give data.path=<file.jsonl>, a row an utterance")
    items = list(read_rows(path, ListItem, whole=True))
    if not items:
        raise ValueError(f"test list {path} has no rows; give a JSON object an utterance")
    check_names(path, [item.id for item in items])
    folder = path.parent.absolute()
    return [
        dataclasses.replace(
            item,
            prompt_audio=str(folder / item.prompt_audio) if item.prompt_audio else "",
            reference_audio=str(folder / item.reference_audio) if item.reference_audio else None,
        )
        for item in items
    ]


def spread(items: list[Row], limit: int | None) -> list[Row]:
    """Choose at most `limit` items, in order, evenly spread.

    Speakers whose utterances follow each other stay. Of those that take turns one alone may be
    left: of three every twelfth utterance is by the same.
    """
    if limit is None or limit >= len(items):
        return items
    if limit < 1:
        raise ValueError(f"limit {limit} is below 1; use limit=null for all utterances")
    return [items[i * len(items) // limit] for i in range(limit)]
