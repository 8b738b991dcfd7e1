"""Word and character edit counts (jiwer), and what all recognisers share.

A recogniser measures a transcript; text and transcript pass the same normaliser before they are
compared. Which normaliser belongs to the recogniser: letters only for those that write letters
(pocketsphinx, HuBERT, Conformer), Whisper's own English one for Whisper, which writes "50". A row
is flagged where the normaliser cannot make its text comparable: `numerals` where digits stay as
they are written, `signs` where a sign is said as a word, `other_script` where letters are dropped.
A text without words (punctuation, emoji or letters that are all dropped) takes no part in any rate.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from speculative_tts.evaluation.judge import Columns
from speculative_tts.evaluation.metric import Better, Metric, each, total
from speculative_tts.evaluation.rows import ScoreRow

Normaliser = Callable[[str], str]

EDITS = ("substitutions", "deletions", "insertions")
CORPUS = "WER is total edits over total words."
AVERAGES = (
    "WER, CER: micro average (all edits over all words or characters); "
    "mean WER: macro average (mean of the utterances' own rates)"
)
FOLDED = str.maketrans(  # letters whose stroke or ligature Unicode does not decompose
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ł": "l"}
)
APOSTROPHES = dict.fromkeys(map(ord, "\u2019\u02bc\u2018\u2032\u00b4"), "'")  # and accents, primes
MARKS = {"Cf": "", "So": " "}  # by category: soft hyphens and joiners; TM, degrees, emoji
SIGNS = re.compile("[&+=@#]")  # which are said as words
QUOTES = re.compile(r"(?<![a-z0-9])'+|'+(?![a-z0-9])")
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
    return (total(row, *EDITS), row["words"] or None)


def _characters(row: ScoreRow) -> tuple[float | None, ...]:
    return (total(row, *(f"character_{edit}" for edit in EDITS)), row["characters"] or None)


def _lost(row: ScoreRow) -> tuple[float | None, ...]:
    return (total(row, "substitutions", "deletions"), row["words"] or None)


def _stopped_early(row: ScoreRow) -> tuple[float | None, ...]:
    """Return whether an utterance ended by itself before its last word was said."""
    lost, stop = row["last_words_lost"], row["stop"]
    return (None if lost is None or stop == "max_length" else float(lost > 0), 1.0)


def _rate(row: ScoreRow) -> tuple[float | None, ...]:
    """The utterance's own rate."""
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
        "mean WER %",
        columns=_rate,
        caption="Mean WER is the mean of utterances' own rates.",
        listed=True,
    ),
    "word_lost": _heard("words lost %", 1, columns=_lost, caption=LOST),
    "first_word_lost": _heard(
        "first words lost %", 1, columns=each("first_word_lost"), caption=LOST
    ),
    "stopped_early": _heard(
        "stopped early %",
        1,
        columns=_stopped_early,
        caption=(
            "Stopped early are utterances that ended by themselves and whose transcript ends "
            "before the text's last word; the recordings' row says how often a judge misses it."
        ),
    ),
}


def normalise(text: str) -> str:
    """Fold accents and return lower case: letters, digits, apostrophes and single spaces only.

    An apostrophe stands within a word; at its edge it is a quotation mark, and left out.
    """
    text = "".join(MARKS.get(unicodedata.category(one), one) for one in text)
    parts = unicodedata.normalize("NFKD", text.translate(APOSTROPHES).lower().translate(FOLDED))
    folded = "".join(part for part in parts if not unicodedata.combining(part))
    return " ".join(QUOTES.sub(" ", re.sub(r"[^a-z0-9']", " ", folded.lower())).split())


class Transcriber:
    """Base of judges that transcribe the output, whose edits are counted."""

    one_numeral: ClassVar[bool] = False  # does the normaliser write "7" and "seven" in one way

    def files(self, sample: ScoreRow) -> list[str]:
        """Return the output's file."""
        return [sample.audio]

    def normaliser(self) -> Normaliser:
        """Return the function that normalises text and transcript before they are compared."""
        return normalise

    def score(self, samples: Sequence[ScoreRow], measured: Mapping[str, Any]) -> list[Columns]:
        """Return transcript, edit counts of words and characters, and flags."""
        plain = self.normaliser()
        return [
            compare(s.text, measured.get(s.audio) or "", plain, one_numeral=self.one_numeral)
            for s in samples
        ]


def compare(
    text: str, heard: str, plain: Normaliser = normalise, *, one_numeral: bool = False
) -> Columns:
    """Return WER and CER columns of one utterance from its text and its transcript."""
    import jiwer

    reference, hypothesis = plain(text), plain(heard)
    found = {
        "empty_text": not reference,
        "empty_hypothesis": not hypothesis,
        "numerals": not one_numeral and re.search(r"\d", reference + hypothesis) is not None,
        "signs": SIGNS.search(text) is not None,
        "other_script": any(not plain(letter) for letter in sorted(set(text)) if _is_other(letter)),
    }
    flags = [name for name, there in found.items() if there]
    spelled = jiwer.process_characters(reference, hypothesis)
    edits = word_edits(reference, hypothesis) | {"characters": len(reference)}
    edits |= _counts(spelled, "character_")
    return {"hypothesis": hypothesis, "flags": flags} | edits


def _is_other(letter: str) -> bool:
    """Return True for a letter or digit beyond ASCII, which a normaliser may drop."""
    return letter.isalnum() and not letter.isascii() and ord(letter) not in APOSTROPHES


def word_edits(reference: str, hypothesis: str) -> Columns:
    """Count edits by words; note whether the first word was lost, and how many last ones.

    An empty reference has no first word, and counts every heard word as an insertion.
    """
    import jiwer

    out = jiwer.process_words(reference, hypothesis)
    counts = {"words": len(reference.split())} | _counts(out)
    if not reference:
        return counts
    parts = out.alignments[0]
    heard = any(part.type == "equal" and part.ref_start_idx == 0 for part in parts)
    last = parts[-1]
    lost = last.ref_end_idx - last.ref_start_idx if last.type == "delete" else 0
    return counts | {"first_word_lost": int(not heard), "last_words_lost": lost}


def _counts(out: Any, prefix: str = "") -> Columns:
    """Return what jiwer counted, spaces among the characters."""
    return {f"{prefix}{name}": getattr(out, name) for name in ("hits", *EDITS)}
