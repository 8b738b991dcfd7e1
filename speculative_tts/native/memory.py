"""Memory for packed weights: large pages, and none of the heap's, where loading leaves holes."""

import ctypes
import math
import mmap

import torch
from torch import Tensor

LARGE_PAGE, CHUNK, LINE = 2 << 20, 32 << 20, 64  # bytes


class _Chunk:
    """Memory that is given out from its beginning; it lives as long as a tensor in it."""

    def __init__(self, native: ctypes.CDLL, size: int) -> None:
        self._memory = mmap.mmap(-1, size + LARGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._next = -start % LARGE_PAGE
        self.left = size
        native.sst_large_pages(start + self._next, size)

    def take(self, count: int, dtype: torch.dtype, size: int) -> Tensor:
        tensor = torch.frombuffer(self._memory, dtype=dtype, count=count, offset=self._next)
        self._next += size
        self.left -= size
        return tensor


_current: _Chunk | None = None


def copied(native: ctypes.CDLL, values: Tensor) -> Tensor:
    """A contiguous copy."""
    global _current  # noqa: PLW0603 - small weights share large pages
    count = math.prod(values.shape)
    size = -(-count * values.element_size() // LINE) * LINE
    if size > CHUNK // 2:
        native.sst_trim()  # what the loader needed for the matrix before
        chunk = _Chunk(native, size)
    elif _current is not None and _current.left >= size:
        chunk = _current
    else:
        chunk = _current = _Chunk(native, CHUNK)
    return chunk.take(count, values.dtype, size).view(values.shape).copy_(values)
