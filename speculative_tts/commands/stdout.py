"""Print to a standard output whose reader may leave early, as `head` does."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Go on inside the block when nobody reads standard output any more; drop the rest of it."""
    before = sys.stdout
    sys.stdout = cast("TextIO", _Output(before))
    try:
        yield
    finally:
        sys.stdout = before


class _Output:
    """A stream of text that is replaced by /dev/null once its reader has left."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._unless_left(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._unless_left(self._stream.flush)

    def _unless_left(self, act: Callable[[], object]) -> None:
        try:
            act()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
