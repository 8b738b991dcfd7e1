"""Word errors by pocketsphinx with a grammar of the corpus' words: training's watchdog."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from speculative_tts.codecs.world import Wave
from speculative_tts.files import write_atomic

PADDING_SAMPLES = 4000
"""Silence around the wave, as the final scores use: an edge word is often heard twice without."""


@dataclass(frozen=True)
class WordErrors:
    """Edits against words of reference; kept as counts."""

    errors: int
    words: int


class WordRecogniser:
    """Recognises strings of one or more of `words` in 16 kHz speech."""

    def __init__(self, words: Sequence[str]) -> None:
        self._decoder = _grammar_decoder(words)

    def __call__(self, wave: Wave) -> list[str]:
        """The words heard."""
        pcm = (np.clip(wave, -1, 1) * 32767).astype(np.int16)
        audio = np.pad(pcm, PADDING_SAMPLES)
        self._decoder.reinit_feat()
        self._decoder.start_utt()
        self._decoder.process_raw(audio.tobytes(), no_search=False, full_utt=True)
        self._decoder.end_utt()
        hypothesis = self._decoder.hyp()
        return hypothesis.hypstr.split() if hypothesis is not None else []


def word_errors(reference: Sequence[str], hypothesis: Sequence[str]) -> WordErrors:
    """Levenshtein distance in words."""
    row = list(range(len(hypothesis) + 1))
    for i, word in enumerate(reference, start=1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(hypothesis, start=1):
            substitution = diagonal + (word != other)
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, substitution)
    return WordErrors(row[-1], len(reference))


def _grammar_decoder(words: Sequence[str]) -> Any:
    try:
        import pocketsphinx
    except ImportError as error:
        message = "listening needs pocketsphinx: pip install 'speculative_tts[tiny]'"
        raise ImportError(message) from error
    grammar = f"#JSGF V1.0; grammar tiny; public <text> = ( {' | '.join(words)} )+ ;"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "words.gram"
        write_atomic(path, grammar)
        return pocketsphinx.Decoder(lm=None, jsgf=str(path), loglevel="FATAL", cmn="batch")
