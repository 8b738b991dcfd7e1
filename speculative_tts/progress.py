"""Progress: a bar where somebody watches, elsewhere a plain line every half minute."""

import os
import sys
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

EVERY = 30  # seconds
LINE = "{desc}: {n_fmt}/{total_fmt} in {elapsed}, {remaining} to go{postfix}"


class _Lines:
    """Standard error for a bar that goes back to the beginning of its line: a line each time."""

    def write(self, text: str) -> None:
        if text := text.strip("\r\n "):
            sys.stderr.write(f"{text}\n")

    def flush(self) -> None:
        sys.stderr.flush()


def watched() -> bool:
    """Is standard error a terminal that can go back in a line? A log is none."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def progress(iterable: Iterable[Any] | None = None, desc: str | None = None, **options: Any) -> Any:
    """A tqdm bar, or in a log its lines; what takes less than `EVERY` seconds is silent there."""
    if not watched():
        options |= {"file": _Lines(), "mininterval": EVERY, "delay": EVERY, "bar_format": LINE}
    return tqdm(iterable, desc, **options)
