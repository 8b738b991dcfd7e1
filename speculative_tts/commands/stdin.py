"""Read text from standard input as it arrives."""

import re
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterator
from io import BufferedReader
from typing import cast


def words() -> Iterator[str]:
    """Yield words as soon as white space or the end follows them; ValueError if there are none."""
    rest, spoken = "", False
    for text in _read():
        *whole, rest = re.split(r"\s+", rest + text)
        for word in filter(None, whole):
            spoken = True
            yield word
    if not spoken:
        raise ValueError(
            'no text on standard input, which text=- reads; pipe some in, or give text="<words>"'
        )


def _read() -> Iterator[str]:
    """Yield pieces of text as they arrive, and a newline at the end."""
    decoder = getincrementaldecoder("utf-8")()
    there = sys.stdin is not None  # None if the shell closed it
    while there and (data := cast("BufferedReader", sys.stdin.buffer).read1()):
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True) + "\n"
