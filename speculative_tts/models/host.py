"""What holds for the process: may the host look at numbers, how many threads compute.

On a CPU looking is free and saves work. A GPU would have to be waited for, and steps that are
replayed as a CUDA graph cannot be looked into at all.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
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


@contextmanager
def with_threads(count: int | None) -> Iterator[None]:
    """So many, of torch and of the native step; None: as it is."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
