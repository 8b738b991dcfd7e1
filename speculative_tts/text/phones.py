"""The phones that a text is spoken with; a text between < and > is phones already."""

import re

from speculative_tts.text.lexicon import VOWELS, word_phones
from speculative_tts.text.normalise import normalise

BEFORE_VOWEL = ["dh", "iy"]  # the
MARKS = (",", ".", "?", "!")
PHONES = (
    *("aa", "ae", "ah", "ao", "aw", "ax", "ay", "b", "ch", "d", "dh", "eh", "er", "ey", "f", "g"),
    *("hh", "ih", "iy", "jh", "k", "l", "m", "n", "ng", "ow", "oy", "p", "r", "s", "sh", "t", "th"),
    *("uh", "uw", "v", "w", "y", "z", "zh"),
    *MARKS,
)
"""Flite's phones of English, which are CMUdict's and the schwa `ax`, then pauses by their marks."""


def spoken_phones(text: str) -> list[str]:
    """Return the phones of a text, its pauses as marks, a mark last.

    Raises ValueError for phones that are none and for a text that cannot be spoken.
    """
    if are_phones(text):
        return given_phones(text.strip()[1:-1].split())
    said: list[str] = []
    for token in re.findall(r"[A-Za-z']+|[,.?!]", normalise(text))[::-1]:
        phones = [token] if token in MARKS else list(word_phones(token))
        if token.lower() == "the" and said and said[0] in VOWELS:
            phones = BEFORE_VOWEL
        said = phones + said
    return given_phones(said)


def are_phones(text: str) -> bool:
    """Return whether a text is phones already."""
    return text.strip().startswith("<") and text.strip().endswith(">")


def given_phones(phones: list[str]) -> list[str]:
    """Return phones as they were given, with a full stop at the end where no mark is."""
    unknown = [phone for phone in phones if phone not in PHONES]
    if unknown or not set(phones) - set(MARKS):
        what = f"{unknown[0]!r} is no phone" if unknown else "no phones to speak"
        raise ValueError(f"{what}; give some of {' '.join(PHONES)} between < and >")
    return [*phones, *([] if phones[-1] in MARKS[1:] else [MARKS[1]])]
