"""Word and character edit counts (jiwer), and what all recognisers share.

A recogniser measures a transcript; text and transcript pass the same normaliser before they are
compared. Which normaliser belongs to the recogniser: letters only for those that write letters
(pocketsphinx, HuBERT, Conformer), Whisper's own English one for Whisper, which writes "50".
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from speculative_tts.evaluation.judge import Columns, Sample
from speculative_tts.evaluation.metric import Better, Metric, each, total
from speculative_tts.evaluation.rows import ScoreRow

Normaliser = Callable[[str], str]

EDITS = ("substitutions", "deletions", "insertions")
CORPUS = "WER is total edits over total words."
LOST = (
    "First words lost are texts whose first word was heard as another or not at all; words lost "
    "are the same of every word."
)
JUDGES = {
    "pocketsphinx-words": "pocketsphinx word grammar",
    "pocketsphinx-general": "pocketsphinx general model",
}
CLOSED = (
    "The recogniser's grammar knows only the words of the tiny system: its WER compares systems "
    "with each other, not with an open recogniser."
)
REMARKS = {"pocketsphinx-words": CLOSED}


def _words(row: ScoreRow) -> tuple[float | None, ...]:
    return (total(row, *EDITS), row["words"])


def _characters(row: ScoreRow) -> tuple[float | None, ...]:
    return (total(row, *(f"character_{edit}" for edit in EDITS)), row["characters"])


def _lost(row: ScoreRow) -> tuple[float | None, ...]:
    return (total(row, "substitutions", "deletions"), row["words"])


def _rate(row: ScoreRow) -> tuple[float | None, ...]:
    """The utterance's own rate; one without words takes no part."""
    edits, words = _words(row)
    return (edits / words if words and edits is not None else None, 1.0)


_heard = partial(
    Metric, scale=100.0, unit="points", better=Better.lower, judge="wer", judges=JUDGES
)
_rated = partial(_heard, caption=CORPUS, remarks=REMARKS, listed=True, compared=True)
METRICS = {
    "wer": _rated("WER %", columns=_words),
    "cer": _rated("CER %", columns=_characters),
    "wer_mean": _heard(
        "mean WER %", columns=_rate, caption="Mean WER is the mean of utterances' own rates."
    ),
    "word_lost": _heard("words lost %", 1, columns=_lost, caption=LOST),
    "first_word_lost": _heard(
        "first words lost %", 1, columns=each("first_word_lost"), caption=LOST
    ),
}


def normalise(text: str) -> str:
    """Lower case, letters, digits and apostrophes only, single spaces."""
    plain = text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return " ".join(re.sub(r"[^a-z0-9']", " ", plain).split())


class Transcriber:
    """Base of judges that transcribe the output, whose edits are counted."""

    def files(self, sample: Sample) -> list[str]:
        """Return the output's file."""
        return [sample.audio]

    def normaliser(self) -> Normaliser:
        """Return the function that normalises text and transcript before they are compared."""
        return normalise

    def score(self, samples: Sequence[Sample], measured: Mapping[str, Any]) -> list[Columns]:
        """Return transcript, edit counts of words and characters, and flags."""
        plain = self.normaliser()
        return [
            compare(plain(sample.text), plain(measured.get(sample.audio) or ""))
            for sample in samples
        ]


def compare(reference: str, hypothesis: str) -> Columns:
    """WER and CER columns of one utterance from two normalised texts."""
    flags = [] if reference else ["empty_text"]
    if not hypothesis:
        flags.append("empty_hypothesis")
    edits = word_edits(reference, hypothesis) | character_edits(reference, hypothesis)
    return {"hypothesis": hypothesis, "flags": flags} | edits


def word_edits(reference: str, hypothesis: str) -> Columns:
    """Count edits by words, and note whether the first word was lost.

    An empty reference has no first word, and counts every heard word as an insertion.
    """
    if not reference:
        return _counts("", 0, 0, 0, 0, len(hypothesis.split()))
    import jiwer

    out = jiwer.process_words(reference, hypothesis)
    length = len(reference.split())
    heard = any(part.type == "equal" and part.ref_start_idx == 0 for part in out.alignments[0])
    counts = _counts("", length, out.hits, out.substitutions, out.deletions, out.insertions)
    return counts | {"first_word_lost": int(not heard)}


def character_edits(reference: str, hypothesis: str) -> Columns:
    """Count edits by characters, spaces included."""
    if not reference:
        return _counts("character_", 0, 0, 0, 0, len(hypothesis))
    import jiwer

    out = jiwer.process_characters(reference, hypothesis)
    edits = (out.hits, out.substitutions, out.deletions, out.insertions)
    return _counts("character_", len(reference), *edits)


def _counts(
    prefix: str, length: int, hits: int, substitutions: int, deletions: int, insertions: int
) -> Columns:
    return {
        "characters" if prefix else "words": length,
        f"{prefix}hits": hits,
        f"{prefix}substitutions": substitutions,
        f"{prefix}deletions": deletions,
        f"{prefix}insertions": insertions,
    }
