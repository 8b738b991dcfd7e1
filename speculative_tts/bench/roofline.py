"""Measure the limit that memory sets: a step cannot be faster than one read of all weights."""

from collections.abc import Mapping
from pathlib import Path

from speculative_tts.native.memory import bandwidth

MAIN = 512 << 20  # bytes that no processor's cache holds
L3 = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")  # "32768K"


def limits(bytes_per_step: Mapping[str, int], threads: int = 1) -> dict[str, float]:
    """Measure bytes per second for each model's size, the L3 cache and main memory, by name.

    Empty if it cannot be measured.

    What no cache holds is read as fast whatever its size: no more than that is taken for it, which
    would be as much memory again as the model's.
    """
    sizes = {**bytes_per_step, **l3(), "main memory": MAIN}
    found = {name: bandwidth(min(size, MAIN), threads) for name, size in sizes.items()}
    return {name: speed for name, speed in found.items() if speed is not None}


def l3() -> dict[str, int]:
    """Return half the size of the last-level cache by its name, if the system tells it."""
    try:
        text = L3.read_text(encoding="ascii").strip()
        size = int(text.removesuffix("K")) << 10
    except (OSError, ValueError):
        return {}
    return {f"half of {size >> 20} MB of L3": size // 2}
