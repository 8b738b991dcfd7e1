"""What this machine's memory allows: a step reads all weights once and is no faster than that."""

import time
from collections.abc import Mapping

import torch

from speculative_tts.models.native.library import library
from speculative_tts.models.native.memory import copied

MAIN = 512 << 20  # bytes that no processor's cache holds
SECONDS = 0.3  # for each size


def bandwidth(size: int) -> float | None:
    """Bytes a second that one core reads of `size` bytes over and over; None without the step."""
    native = library()
    if native is None:
        return None
    data = copied(native, torch.zeros(size // 4))
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        begin = time.perf_counter()
        native.sst_read(data.data_ptr(), len(data))
        best = min(best, time.perf_counter() - begin)
    return data.nbytes / best


def limits(bytes_per_step: Mapping[str, int]) -> dict[str, float]:
    """Bytes a second by name: of each model's size, and of main memory; empty if not known."""
    sizes = {**bytes_per_step, "main memory": MAIN}
    found = {name: bandwidth(size) for name, size in sizes.items()}
    return {name: speed for name, speed in found.items() if speed is not None}
