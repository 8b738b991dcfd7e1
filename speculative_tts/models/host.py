"""May the host look at numbers, or is everything of fixed shape?

On a CPU looking is free and saves work. A GPU would have to be waited for, and steps that are
replayed as a CUDA graph cannot be looked into at all.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

_fixed = False


def readable(x: Tensor) -> bool:
    """Is looking at numbers of this tensor free?"""
    return x.device.type == "cpu" and not _fixed


@contextmanager
def fixed() -> Iterator[None]:
    """Nothing is looked at on a CPU either: what a GPU does, where there is none."""
    global _fixed  # noqa: PLW0603 - of the process, as torch's number of threads
    before, _fixed = _fixed, True
    try:
        yield
    finally:
        _fixed = before
