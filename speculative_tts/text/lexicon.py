"""Pronounce words: by CMUdict, as a plural of one of its words, or by their letters."""

import lzma
from functools import cache
from pathlib import Path

from speculative_tts.text.letters import LetterToSound

FOLDER = Path(__file__).parent.parent / "assets" / "english"
LEXICON, LETTERS = "lexicon.txt.xz", "letters.txt.xz"
WEAK = {"a": "ax", "the": "dh ax", "to": "t ax", "an": "ae n", "and": "ae n d"}
"""Words that running speech says otherwise than a dictionary."""

VOWELS = frozenset(
    ("aa", "ae", "ah", "ao", "aw", "ax", "ay", "eh", "er", "ey", "ih", "iy", "ow", "oy", "uh", "uw")
)
HISSING = frozenset(("s", "z", "sh", "zh", "ch", "jh"))
VOICELESS = frozenset(("p", "t", "k", "f", "th"))
NAMES = """
a ey|b b iy|c s iy|d d iy|e iy|f eh f|g jh iy|h ey ch|i ay|j jh ey|k k ey|l eh l|m eh m|n eh n|o ow
p p iy|q k y uw|r aa r|s eh s|t t iy|u y uw|v v iy|w d ah b ax l y uw|x eh k s|y w ay|z z iy
"""
SPELLED = {one[0]: one[2:] for one in NAMES.strip().replace("\n", "|").split("|")}
"""Letters by their names."""


@cache
def lexicon() -> dict[str, str]:
    """CMUdict's words and their phones."""
    text = lzma.decompress((FOLDER / LEXICON).read_bytes()).decode()
    return dict(line.split(" ", 1) for line in text.split("\n")) | WEAK


@cache
def by_letters() -> LetterToSound:
    """The model for words that are in no dictionary."""
    return LetterToSound.load(FOLDER / LETTERS)


@cache
def word_phones(word: str) -> tuple[str, ...]:
    """Return the phones of a word; of one in capitals that cannot be read, its letters' names."""
    known = lexicon()
    lower = word.lower()
    if word.isupper() and len(word) > 1 and (lower not in known or not set(lower) & set("aeiouy")):
        return tuple(phone for letter in lower for phone in SPELLED.get(letter, "").split())
    if lower in known:
        return tuple(known[lower].split())
    for ending in ("'s", "s'", "s"):
        stem = lower.removesuffix(ending)
        if stem != lower and stem in known:
            return (*known[stem].split(), *plural(known[stem].split()[-1]))
    return tuple(by_letters().phones(lower.replace("'", "")))


def plural(last: str) -> tuple[str, ...]:
    """Return the phones of a plural or possessive s after the phone `last`."""
    if last in HISSING:
        return ("ih", "z")
    return ("s",) if last in VOICELESS else ("z",)
