"""Facts of the process: whether the host may read tensors, and its number of threads.

On a CPU looking is free and saves work. A GPU would have to be waited for, and steps that are
replayed as a CUDA graph cannot be looked into at all.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_fixed = False


def readable(x: Tensor) -> bool:
    """True if reading this tensor needs no synchronisation with its device."""
    return x.device.type == "cpu" and not _fixed


@contextmanager
def fixed() -> Iterator[None]:
    """Treat CPU tensors as unreadable too, so that a CPU takes the path of a GPU."""
    global _fixed  # noqa: PLW0603 - of the process, as torch's number of threads
    before, _fixed = _fixed, True
    try:
        yield
    finally:
        _fixed = before


@contextmanager
def with_threads(count: int | None) -> Iterator[None]:
    """Set the number of threads of torch and native code within a block; None: leave it."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
