"""Transcribe with pocketsphinx, with one of two grammars.

`words`: any sequence of a small vocabulary, the tiny system's; the recogniser can return nothing
else, so its rates cannot be compared with another recogniser's. `general`: pocketsphinx's own
trigram language model for open text; on real LibriTTS speech it errs on about 30 % of the words, so
it can rank systems, but says little about one alone.
"""

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from speculative_tts.evaluation.audio import SAMPLE_RATE, Wave
from speculative_tts.evaluation.judge import Columns, Measure
from speculative_tts.evaluation.local_model import WheelModel
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.weights import WheelFile
from speculative_tts.evaluation.wer import Transcriber, compare, normalise
from speculative_tts.texts import some

if TYPE_CHECKING:
    from pocketsphinx import Decoder

Grammar = Literal["words", "general"]

_WORDS = """
alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar
papa quebec romeo sierra tango uniform victor whiskey yankee zulu
zero one two three four five six seven eight nine
"""
TINY_WORDS = tuple(_WORDS.split())  # the spelling alphabet without x-ray, and digits
LABELS = {
    "words": "pocketsphinx, word grammar: not comparable with open recognisers",
    "general": "pocketsphinx, general language model: for ranking (about 30 % on real speech)",
}
PADDING = 0.25  # seconds of silence added on either side of a wave
DICTIONARY = WheelFile("pocketsphinx", "model/en-us/cmudict-en-us.dict")


@functools.cache
def dictionary() -> frozenset[str]:
    """Return the words that pocketsphinx can recognise."""
    with DICTIONARY.path().open(encoding="utf-8") as file:
        return frozenset(line.split(None, 1)[0] for line in file)


def choose_grammar(grammar: str, texts: Iterable[str], words: Sequence[str]) -> Grammar:
    """Choose a run's grammar; `auto` is `words` if all words of all texts are in the vocabulary."""
    if grammar == "auto":
        spoken = {word for text in texts for word in normalise(text).split()}
        return "words" if spoken and spoken <= set(words) else "general"
    if grammar in LABELS:
        return "words" if grammar == "words" else "general"
    raise ValueError(f"grammar={grammar} is unknown; use auto, words or general")


@dataclass(frozen=True)
class Pocketsphinx(Transcriber, WheelModel):
    """Pocketsphinx with one of two grammars; `words` is the vocabulary of the word grammar."""

    grammar: Grammar = "words"
    words: tuple[str, ...] = TINY_WORDS

    packages: ClassVar = ("pocketsphinx", "jiwer")
    remedy: ClassVar = "WER needs pocketsphinx and jiwer; pip install pocketsphinx jiwer"

    @property
    def id(self) -> str:
        """The judge's id, which names the grammar."""
        return f"pocketsphinx-{self.grammar}"

    @property
    def options(self) -> dict[str, Any]:
        """Grammar, vocabulary and silence around the wave."""
        vocabulary = {"words": " ".join(self.words)} if self.grammar == "words" else {}
        return {
            "grammar": self.grammar,
            "label": LABELS[self.grammar],
            "padding": PADDING,
        } | vocabulary

    def load(self) -> Measure:
        """Load the model as a function from a wave to its transcript."""
        return load_recogniser(self.grammar, self.words)

    def score(self, samples: Sequence[ScoreRow], measured: Mapping[str, Any]) -> list[Columns]:
        """Return transcript, edit counts, words missing from the dictionary, and flags."""
        return [
            edit_columns(sample.text, measured.get(sample.audio) or "", self.grammar)
            for sample in samples
        ]


QUIET = {"loglevel": "FATAL", "logfn": os.devnull, "cmn": "batch"}


def load_recogniser(grammar: Grammar, words: tuple[str, ...]) -> Measure:
    """Load the recogniser as a function from a wave to its transcript, perhaps empty."""
    from pocketsphinx import Config, Decoder

    return recogniser(word_decoder(words) if grammar == "words" else Decoder(Config(**QUIET)))


def word_decoder(words: Sequence[str]) -> "Decoder":
    """Build a decoder for any sequence of words, all equally likely.

    The automaton that pocketsphinx compiles from `(a | b)+` in JSGF holds each word twice, as the
    last and as another one: it gives the same transcripts in nearly twice the time. As in that one,
    each word has its own state, because of words that end in one state the lattice holds only the
    best; and the cost of continuing is on arcs without a word, which the lattice leaves out.
    """
    from pocketsphinx import Config, Decoder

    unknown = [word for word in words if word not in dictionary()]
    if unknown or not words:
        raise ValueError(
            f"word grammar: {some(unknown) or 'no words'} not in pocketsphinx's dictionary"
            "; use grammar=general"
        )
    states = dict(enumerate(words, start=2))  # 0 is before a word, 1 the end
    spoken = [(0, state, 1 / len(words), word) for state, word in states.items()]
    silent = [(state, after, p) for state in states for after, p in ((0, 0.5), (1, 1.0))]
    decoder = Decoder(Config(lm=None, **QUIET))
    decoder.add_fsg("words", decoder.create_fsg("words", 0, 1, [*spoken, *silent]))
    decoder.activate_search("words")
    return decoder


def recogniser(decoder: "Decoder") -> Measure:
    """Turn a decoder into a function from a wave to its transcript.

    The front end is reset for each utterance (otherwise 2 of 24 transcripts depend on the order),
    and silence is added around the wave: without it a word at the very edge is often recognised
    twice (Flite at rate 1.25: 4.3 % against 1.1 % WER).
    """

    def transcribe(wave: Wave) -> str:
        padded = np.pad(wave * 32767.0, int(PADDING * SAMPLE_RATE)).astype(np.int16)
        decoder.reinit_feat()
        decoder.start_utt()
        decoder.process_raw(padded.tobytes(), full_utt=True)
        decoder.end_utt()
        hypothesis = decoder.hyp()
        return normalise(hypothesis.hypstr) if hypothesis else ""

    return transcribe


def edit_columns(text: str, hypothesis: str, grammar: Grammar) -> Columns:
    """Return the WER and CER columns of one utterance from its text and transcript."""
    unknown = sum(word not in dictionary() for word in normalise(text).split())
    return {"grammar": grammar, "unknown_words": unknown} | compare(text, hypothesis)
