"""Show progress: a bar on a terminal, elsewhere a plain line every half minute."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tqdm import tqdm

EVERY = 30  # seconds
LINE = "{desc}: {n_fmt}/{total_fmt} in {elapsed}, {remaining} to go{postfix}"

Progress = Callable[[int], object]  # called with the amount of work done since the last call
Stage = Callable[[str, int], AbstractContextManager[Progress]]  # of a name and all its work


class _Lines:
    """Standard error for a tqdm bar in a log: every update becomes a line of its own."""

    def write(self, text: str) -> None:
        if text := text.strip("\r\n "):
            sys.stderr.write(f"{text}\n")

    def flush(self) -> None:
        sys.stderr.flush()


def watched() -> bool:
    """Return True if standard error is a terminal that can rewrite its line."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def progress(iterable: Iterable[Any] | None = None, desc: str | None = None, **options: Any) -> Any:
    """Return a tqdm bar; in a log it prints lines, and nothing in the first `EVERY` seconds."""
    if not watched():
        options |= {"file": _Lines(), "mininterval": EVERY, "delay": EVERY, "bar_format": LINE}
    return tqdm(iterable, desc, **options)


@contextmanager
def bar(name: str, work: int) -> Iterator[Progress]:
    """Show a bar of one stage of long work."""
    with progress(total=work, desc=name, unit_scale=True) as shown:
        yield shown.update


@contextmanager
def silent(_name: str, _work: int) -> Iterator[Progress]:
    """Show nothing, in the place of `bar`."""
    yield lambda _: None
