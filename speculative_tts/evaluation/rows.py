"""Define the row of `scores.jsonl`: one utterance of one run, counts only."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from speculative_tts.evaluation.audio import seconds
from speculative_tts.evaluation.judge import Sample
from speculative_tts.records import SCORED, TIMED, DecodeRecord, columns_marked
from speculative_tts.typed import typed

NO_CODES = "no_codes"  # flag of an utterance that ended at once; its audio is a short silence


@dataclass(frozen=True)
class ScoreRow:
    """Scores and raw counts of one utterance, flat in the file; `summary` computes ratios.

    `columns` holds the judges' columns, durations, `seen` (was the speaker in training; None where
    the list does not say), and the decode record's counts, which are missing where no language
    model ran (the reference recording, the codec, another system's audio). `row["words"]` is None
    where nothing was measured.
    """

    id: str
    speaker: str
    seed: int
    text: str
    audio: str
    # reason why the utterance could not be scored; it then has no columns of judges
    error: str | None = None
    # empty_audio, silent_audio, empty_text, empty_hypothesis, numerals, signs, other_script,
    # no_codes, prompt_unreadable
    flags: list[str] = field(default_factory=list)
    columns: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, column: str) -> Any:
        return self.columns.get(column)

    def flat(self) -> dict[str, Any]:
        """Return the row as it is written: columns beside the other fields."""
        own = {name: getattr(self, name) for name in OWN}
        return own | dict(self.columns)


OWN = [entry.name for entry in fields(ScoreRow) if entry.name != "columns"]


def read_row(row: dict[str, Any]) -> ScoreRow:
    """Read a row as `flat` wrote it."""
    own = {name: value for name, value in row.items() if name in OWN}
    columns = {name: value for name, value in row.items() if name not in OWN}
    return typed(ScoreRow, own | {"columns": columns}, f"score of {row.get('id')}")


def row_of(sample: Sample) -> ScoreRow:
    """Build a sample's row without judges: durations and the decoder's counts."""
    record, reference = sample.record, sample.reference_audio
    counts = decode_counts(record) if record else {}
    durations = {
        "audio_seconds": record.audio_seconds if record else seconds(Path(sample.audio)),
        "reference_seconds": seconds(Path(reference)) if reference else None,
    }
    return ScoreRow(
        id=sample.id,
        speaker=sample.speaker,
        seed=sample.seed,
        text=sample.text,
        audio=record.audio if record else sample.audio,
        flags=[NO_CODES] if record and counts and not record.codes else [],
        columns={"seen": record.seen if record else None} | durations | counts,
    )


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
    clocks = {"clocks": list(map(vars, record.clocks))} if record.clocks else {}
    counts = record.counts.columns() if record.counts.rounds else {}
    stream = record.arrivals.heard() if record.arrivals else {}
    return own | clocks | counts | stream | (vars(record.split) if record.split else {})
