"""The row of `scores.jsonl`: one utterance of one run, counts only."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from speculative_tts.evaluation.audio import seconds
from speculative_tts.evaluation.judge import Sample
from speculative_tts.records import DecodeRecord


@dataclass(frozen=True)
class ScoreRow:
    """Scores and raw counts of one utterance; None where nothing was measured.

    Ratios are taken by `summary`. Columns from `tokens` on are copies of the decode record's, and
    None where no language model ran (the reference recording, the codec, another system's audio).
    """

    id: str
    speaker: str
    seed: int
    text: str
    audio: str
    # why the utterance could not be scored; its other columns are None then
    error: str | None = None
    # empty_audio, silent_audio, empty_text, empty_hypothesis, no_tokens, prompt_unreadable
    flags: list[str] = field(default_factory=list)
    grammar: str | None = None  # words | general, of pocketsphinx
    hypothesis: str | None = None
    words: int | None = None
    hits: int | None = None
    substitutions: int | None = None
    deletions: int | None = None
    insertions: int | None = None
    unknown_words: int | None = None  # words of the text that the recogniser has no entry for
    characters: int | None = None
    character_hits: int | None = None
    character_substitutions: int | None = None
    character_deletions: int | None = None
    character_insertions: int | None = None
    similarity: float | None = None
    similarity_floor: float | None = None
    dnsmos: float | None = None
    utmos: float | None = None
    audio_seconds: float | None = None
    reference_seconds: float | None = None
    tokens: int | None = None
    lm_seconds: float | None = None
    stop: str | None = None
    rounds: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    drafted_per_position: list[int] | None = None
    accepted_per_position: list[int] | None = None
    residuals: int | None = None
    bonuses: int | None = None
    residual_fallbacks: int | None = None
    baseline_tokens: int | None = None
    baseline_seconds: float | None = None
    draft_seconds: float | None = None
    verify_seconds: float | None = None
    accept_seconds: float | None = None
    tv: list[float] | None = None
    kl: list[float] | None = None
    positions: list[int] | None = None
    expected_rejections: list[float] | None = None
    expected_trials: list[float] | None = None
    swapped: int | None = None
    changed: int | None = None


def row_of(sample: Sample) -> ScoreRow:
    """The row of a sample before any judge has listened: durations and the decoder's counts."""
    record, reference = sample.record, sample.reference_audio
    counts = decode_counts(record) if record else {}
    return ScoreRow(
        id=sample.id,
        speaker=sample.speaker,
        seed=sample.seed,
        text=sample.text,
        audio=record.audio if record else sample.audio,
        flags=["no_tokens"] if counts.get("tokens") == 0 else [],
        audio_seconds=record.audio_seconds if record else seconds(Path(sample.audio)),
        reference_seconds=seconds(Path(reference)) if reference else None,
        **counts,
    )


def decode_counts(record: DecodeRecord) -> dict[str, Any]:
    """The decoder's columns of a row; none where no language model ran (no seconds, no rounds).

    A swapped run has counts, but no seconds: its tokens are another run's.
    """
    if record.swapped is not None:
        return {name: getattr(record, name) for name in ("tokens", "stop", "swapped", "changed")}
    if record.lm_seconds == 0 and record.rounds == 0:
        return {}
    names = ["tokens", "lm_seconds", "stop", "baseline_tokens", "baseline_seconds"]
    if record.rounds:
        names += ["rounds", "drafted", "accepted", "drafted_per_position", "accepted_per_position"]
        names += ["residuals", "bonuses", "residual_fallbacks"]
    counts = {name: getattr(record, name) for name in names}
    return counts | (vars(record.split) if record.split else {})
