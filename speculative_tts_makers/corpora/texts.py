"""Read plain English sentences from texts on disk, in one fixed order.

Three kinds of folders are read: WordNet's (Debian's `wordnet-base`: the example sentences of its
glosses), SWORD's with a compressed text module (Debian's `sword-text-web`: the World English Bible,
public domain) and any folder of .txt files. Sentences are cut to letters, apostrophes and the marks
that are heard; one of `HELD_OUT_EVERY` is kept for lists and never trained on.
"""

import html
import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from speculative_tts.files import text_hash

WORDS = (3, 30)
HELD_OUT_EVERY = 40
WORDNET_FILES = ("data.noun", "data.verb", "data.adj", "data.adv")
PLAIN = str.maketrans("\u2018\u2019\u201c\u201d;", "''\"\",") | {0x2013: ", ", 0x2014: ", "}
BLOCK_ENTRY = struct.Struct("<III")  # of a SWORD block index: offset, size, size when unpacked
ABBREVIATIONS = frozenset(
    ("mr", "mrs", "ms", "dr", "st", "vs", "etc", "no", "jr", "sr", "rev", "capt")
)


def sentences(folders: Iterable[Path]) -> list[str]:
    """Return the different sentences of all folders, sorted; ValueError for one without any."""
    texts: dict[str, str] = {}
    for folder in folders:
        read = {text_key(text): text for text in _read(folder)}
        if not read:
            raise ValueError(
                f"{folder} has no sentences of {WORDS[0]} to {WORDS[1]} words; give folders of "
                ".txt files, WordNet or SWORD (apt-get install wordnet-base sword-text-web)"
            )
        texts |= read
    return [texts[key] for key in sorted(texts)]


def text_key(text: str) -> str:
    """Return the letters of a text, equal for texts that differ in case or marks alone."""
    return " ".join(re.findall(r"[a-z']+", text.lower()))


def held_out(text: str) -> bool:
    """Tell sentences of lists from those of training, whatever else is read."""
    return int(text_hash(text_key(text))[:8], 16) % HELD_OUT_EVERY == 0


def cleaned(text: str) -> str | None:
    """Return the sentence with a capital, plain marks and an end; None unless it is usable."""
    text = re.sub(r"\(.*?\)|\[.*?\]|\"", " ", text.translate(PLAIN))
    text = re.sub(r":|--+|\s-+\s", ",", text)
    text = re.sub(r"(?<=\w)-(?=\w)", " ", text)
    text = re.sub(r"\s+", " ", re.sub(r"\s*,[\s,]*", ", ", text)).strip(" ,'")
    text = re.sub(r"\s*,?\s*([.?!])[.?!\s]*$", r"\1", text)
    if not re.fullmatch(r"[A-Za-z][A-Za-z' ,]*[A-Za-z'][.?!]?", text):
        return None
    words = text.split()
    if not WORDS[0] <= len(words) <= WORDS[1] or any(
        word.isupper() for word in words if len(word) > 1
    ):
        return None
    return text[0].upper() + text[1:] + ("" if text[-1] in ".?!" else ".")


def _read(folder: Path) -> Iterator[str]:
    """Yield the sentences of one folder by what lies in it."""
    if (folder / WORDNET_FILES[0]).is_file():
        raw = _wordnet(folder)
    elif blocks := sorted(folder.rglob("*.bzs")):
        raw = (text for path in blocks for text in split(_sword(path)))
    else:
        files = sorted(folder.rglob("*.txt"))
        raw = (text for path in files for text in split(path.read_text(encoding="utf-8")))
    return (text for text in map(cleaned, raw) if text is not None)


def _wordnet(folder: Path) -> Iterator[str]:
    """Yield the quoted examples of WordNet's glosses."""
    for name in WORDNET_FILES:
        for line in (folder / name).read_text(encoding="latin1").splitlines():
            gloss = line.partition("| ")[2]
            yield from re.findall(r'"([^"]+)"', gloss)


def _sword(index: Path) -> str:
    """Return the text of a SWORD zText module without notes, titles and tags."""
    packed = index.with_suffix(".bzz").read_bytes()
    blocks = (
        zlib.decompress(packed[offset : offset + size])
        for offset, size, _ in BLOCK_ENTRY.iter_unpack(index.read_bytes())
        if size
    )
    text = b" ".join(blocks).decode("utf-8", errors="ignore")
    text = re.sub(r"<(note|title)\b.*?</\1>", " ", text, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>|[^\S\n]", " ", text)).replace("\n", " ")


def split(text: str) -> Iterator[str]:
    """Yield the sentences of running text; a title's full stop ends none."""
    begun = ""
    for piece in re.split(r"(?<=[.?!])[\"'\u201d\u2019)]*\s+", re.sub(r"\s+", " ", text)):
        begun = f"{begun} {piece}".strip()
        last = re.sub(r"[^a-z]", "", begun.rsplit(" ", 1)[-1].lower())
        if not (begun.endswith(".") and (last in ABBREVIATIONS or len(last) == 1)):
            yield begun
            begun = ""
    if begun:
        yield begun
