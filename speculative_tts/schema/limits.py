"""Declare the limits of settings in their types: `threads: Threads = 1`.

`check` enforces them when a configuration becomes an object, and `--help` shows them. Any number
must be finite and below 2^53.
"""

import functools
import typing
from dataclasses import dataclass
from typing import Annotated, Any

from speculative_tts.schema.fields import given, said

NONE = type(None)
HUGE = 2**53  # from here on float64 cannot count
AUTO, ADAPTIVE = "auto", "adaptive"


@dataclass(frozen=True)
class Limit:
    """The numbers that a setting takes: `least` to `most`, without `least` itself if `above`.

    `words` are allowed instead of a number.
    """

    least: float | None = None
    most: float | None = None
    above: bool = False
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Describe the allowed values, for messages and help; empty without a limit."""
        if self.least is None:
            return ""
        least, most = f"{self.least:g}", "" if self.most is None else f"{self.most:.15g}"
        words = "".join(f", or {word}" for word in self.words)
        if self.above:
            return (f"more than {least}, up to {most}" if most else f"more than {least}") + words
        return (f"{least} to {most}" if most else f"{least} or more") + words

    def fault(self, value: float | str) -> str | None:
        """Return the fault of a number, or of a word instead; None if there is none."""
        if isinstance(value, str):
            return "is no number" if self.words and value not in self.words else None
        if not abs(value) < HUGE:
            return "is not a finite number below 2^53"
        if self.least is not None and self.above and value <= self.least:
            return f"is not above {self.least:g}"
        if self.least is not None and value < self.least:
            return f"is below {self.least:g}"
        return f"is above {self.most:.15g}" if self.most is not None and value > self.most else None


Count = Annotated[int, Limit(1)]
Few = Annotated[int, Limit(1, 1000)]
Lookahead = Annotated[int | str, Limit(1, 1000, words=(AUTO, ADAPTIVE))]
Several = Annotated[int, Limit(2, 100_000)]
Many = Annotated[int, Limit(1, 1_000_000)]
Whole = Annotated[int, Limit(0)]
Ids = Annotated[int, Limit(0, 1_000_000)]  # of a vocabulary, or tokens of a window of them
Threads = Annotated[int, Limit(1, 1024)]  # or processes: a million of them end in a segfault
Draws = Annotated[int, Limit(0, 100_000)]  # of a bootstrap, which holds them all in memory
Seed = Annotated[int, Limit(0, 2**32 - 1)]  # what numpy, torch and Python all take
Positive = Annotated[float, Limit(0, above=True)]
NonNegative = Annotated[float, Limit(0)]
PerWord = Annotated[float, Limit(0, 1000, above=True)]  # tokens, for which a cache has room
Size = Annotated[float, Limit(1)]
Share = Annotated[float, Limit(0, 1)]
Nucleus = Annotated[float, Limit(0, 1, above=True)]
Cosine = Annotated[float, Limit(-1, 1, above=True)]


@functools.cache
def limit_of(hint: Any) -> Limit:
    """Return the limit in a field's type, inside lists and unions too, else any finite number."""
    return said(hint, Limit) or Limit()


def check(config: Any, prefix: str = "") -> None:
    """Raise ValueError for the first number of a configuration that is beyond its limit."""
    for one in given(config, prefix):
        limit, null = limit_of(one.hint), ", or null" if NONE in typing.get_args(one.hint) else ""
        for number in one.value if isinstance(one.value, list) else [one.value]:
            if isinstance(number, list | dict):
                raise ValueError(f"{one.key} holds {number}; give a list of plain values")
            if type(number) in (int, float, str) and (fault := limit.fault(number)):
                wanted = f"{limit or 'a smaller one'}{null}"
                raise ValueError(f"{one.key} {number} {fault}; give {wanted}")
