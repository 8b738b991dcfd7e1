"""The text side of official checkpoints: phonemes by espeak, and their ids.

Symbols are in a `unique_text_tokens.k2symbols` file; its numbers are not used. Ids are by position
among the sorted symbols, after <pad>, <bos> and <eos>, as the official collater has them.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from speculative_tts.texts import read_lines, some

SPECIAL = ("<pad>", "<bos>", "<eos>")
BEGIN, END = 1, 2
WORD_MARK = "_"


@dataclass(frozen=True)
class Symbols:
    """Ids by symbol."""

    ids: dict[str, int]

    @classmethod
    def of(cls, symbols: Iterable[str]) -> "Symbols":
        """Ids of these symbols (without the special ones), by code points."""
        ordered = [*SPECIAL, *sorted(symbols)]
        return cls({symbol: index for index, symbol in enumerate(ordered)})

    @classmethod
    def read(cls, path: Path) -> "Symbols":
        """A k2symbols file: lines of a symbol and a number. ValueError names a line that is not."""
        if not path.is_file():
            raise ValueError(f"symbol table {path} not found; it belongs to the checkpoint")
        symbols = []
        for number, line in enumerate(read_lines(path, "copy the file again"), start=1):
            parts = line.split()
            if len(parts) != 2 or not parts[1].isdecimal():
                raise ValueError(f"{path}:{number} is not '<symbol> <number>'; copy the file again")
            symbols.append(parts[0])
        return cls.of(symbols)

    def encode(self, phonemes: Sequence[str]) -> list[int]:
        """Begin id, phonemes, end id; ValueError names phonemes without an id."""
        unknown = sorted({phoneme for phoneme in phonemes if phoneme not in self.ids})
        if unknown:
            raise ValueError(
                f"phonemes without an id: {some(unknown)}; give the symbol table of the "
                "checkpoint, or the espeak-ng version that it was trained with"
            )
        return [BEGIN, *(self.ids[phoneme] for phoneme in phonemes), END]


def split_phonemes(phonemised: str) -> list[str]:
    """Phonemes and punctuation of espeak's text (words _, phones |), a mark between words.

    Each word's runs of letters and each of its other signs are symbols of their own.
    """
    found: list[str] = []
    for word in phonemised.split(WORD_MARK):
        found += [s for s in re.findall(r"\w+|[^\w\s]", word) if s != "|"]
        found.append(WORD_MARK)
    return found[:-1]


@lru_cache(maxsize=1024)
def phonemes(text: str, language: str = "en-us") -> tuple[str, ...]:
    """Phonemes of a text by espeak-ng; ImportError says what to install."""
    backend, separator = _espeak(language)
    return tuple(
        split_phonemes(backend.phonemize([text.strip()], separator=separator, strip=True)[0])
    )


@lru_cache(maxsize=2)
def _espeak(language: str) -> tuple[Any, Any]:
    """The official front end's backend and separators."""
    try:
        from phonemizer.backend import EspeakBackend
        from phonemizer.separator import Separator
    except ImportError as error:
        raise ImportError(
            "phonemes need phonemizer and espeak-ng: pip install 'speculative_tts[papers]'"
        ) from error
    backend = EspeakBackend(
        language,
        preserve_punctuation=True,
        with_stress=False,
        language_switch="keep-flags",
        words_mismatch="ignore",
    )
    return backend, Separator(word=WORD_MARK, syllable="-", phone="|")
