"""Say where Triton's kernels compute, and launch them. Importing this does not import Triton.

The modules of `kernels` do: import them only where `usable` is true.
"""

import functools
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from speculative_tts.native import library
from speculative_tts.schema.decode import Kernels

OLDEST = (8, 0)  # compute capability: bfloat16 in matrix units, asynchronous copies
EARLY_LAUNCH = (9, 0)  # has programmatic dependent launch
FORMATS = (torch.float32, torch.bfloat16)
_anywhere = False
_launched = 0


def usable(device: torch.device) -> bool:
    """Return whether models on this device compute with Triton in this process."""
    if device.type != "cuda":
        return _anywhere
    return library.chosen() in (Kernels.auto, Kernels.triton) and lacks(device) is None


def require(device: torch.device) -> None:
    """Raise ValueError if runtime.kernels=triton was chosen for a device that cannot have it."""
    if library.chosen() is Kernels.triton and (reason := lacks(device)) is not None:
        raise ValueError(f"runtime.kernels=triton: {reason}; use runtime.kernels=auto")


@contextmanager
def anywhere() -> Iterator[None]:
    """Compute with Triton off a GPU too, for tests.

    On a CPU, where TRITON_INTERPRET=1 has Triton interpret its kernels; on `meta` launches do
    nothing.
    """
    global _anywhere  # noqa: PLW0603 - of the process, as `library.select`
    before, _anywhere = _anywhere, True
    try:
        yield
    finally:
        _anywhere = before


@functools.cache
def lacks(device: torch.device) -> str | None:
    """Return the reason why Triton cannot compute on this device, None if it can."""
    if device.type != "cuda":
        return f"it needs a GPU, runtime.device is {device.type}"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed, which torch for CUDA brings"
    capability = torch.cuda.get_device_capability(device)
    if capability < OLDEST:
        has, least = (".".join(map(str, pair)) for pair in (capability, OLDEST))
        return f"it needs a GPU of compute capability {least}, this one has {has}"
    return None


@functools.cache
def launches_early(device: torch.device) -> bool:
    """Return whether a kernel may start, and read weights, while the one before it still runs."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= EARLY_LAUNCH


def suits(x: Tensor) -> bool:
    """Return whether kernels take this tensor's format and its device computes with Triton."""
    return x.dtype in FORMATS and usable(x.device)


def launch(
    kernel: Any, grid: tuple[int, ...], *args: Any, pdl: bool = False, **options: Any
) -> None:
    """Launch a kernel with its arguments, named tuples among them, and constants.

    pdl: it has a flag `PDL` and may start before the kernel before it has ended.
    """
    global _launched  # noqa: PLW0603 - counts for benchmarks
    _launched += 1
    if not is_real(args):
        return
    if pdl:
        options |= {"launch_pdl": True}
    kernel[grid](*args, **options)


def is_real(args: tuple[Any, ...]) -> bool:
    """Return whether the tensor that comes first in a launch's arguments has numbers."""
    first = args[0]
    while isinstance(first, tuple):
        first = first[0]
    return bool(first.device.type != "meta")


def launched() -> int:
    """Return how many kernels this process has launched so far, those of `meta` too."""
    return _launched


def power_of_2(number: int, least: int = 1) -> int:
    """Return the smallest power of two that is at least both."""
    return max(least, 1 << (number - 1).bit_length())
