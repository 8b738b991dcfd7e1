"""Memory for packed weights: large pages, and none of the heap's, where loading leaves holes."""

import ctypes
import math
import mmap
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from speculative_tts.native.library import library

SECONDS = 0.3  # that `bandwidth` reads
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
    """Return a contiguous copy."""
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


def bandwidth(size: int, threads: int = 1) -> float | None:
    """Measure bytes per second of reading `size` bytes repeatedly; None without the native step.

    Each thread reads its part again and again, the best reading of each counts.
    """
    native = library()
    if native is None:
        return None

    def best(_: int) -> float:
        data = copied(native, torch.zeros(size // 4 // threads))
        found, end = float("inf"), time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            begin = time.perf_counter()
            native.sst_read(data.data_ptr(), len(data))
            found = min(found, time.perf_counter() - begin)
        return data.nbytes / found

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(best, range(threads)))
