"""Decide where kernels run, and launch them by name: Triton is imported at the first launch."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from speculative_tts.models.gpu import triton_runtime
from speculative_tts.models.gpu.triton_runtime import usable

WITHOUT_A_GPU = ("cpu", "meta")
_everywhere = False


def runs(x: Tensor) -> bool:
    """Return whether kernels of `decoding.gpu` compute with this tensor."""
    return usable(x.device) or (_everywhere and x.device.type in WITHOUT_A_GPU)


@contextmanager
def everywhere() -> Iterator[None]:
    """Run these kernels, and no others, off a GPU too, for tests.

    On a CPU Triton has to interpret them (TRITON_INTERPRET=1); on `meta`, whose tensors have no
    numbers, all but the kernels themselves runs.
    """
    global _everywhere  # noqa: PLW0603 - of the process, as `host.fixed`
    before, _everywhere = _everywhere, True
    try:
        yield
    finally:
        _everywhere = before


def launch(kernel: str, grid: tuple[int, ...], *given: Any, **constants: Any) -> None:
    """Launch a kernel, `module.name` in `decoding.gpu.kernels`; a tensor comes first."""
    function, (module, name) = None, kernel.split(".")
    if triton_runtime.is_real(given):
        function = getattr(import_module(f"speculative_tts.decoding.gpu.kernels.{module}"), name)
    with np.errstate(all="ignore"):  # of the interpreter: NaN stands for "no distribution"
        triton_runtime.launch(function, grid, *map(_as_bytes, given), **constants)


def _as_bytes(x: Any) -> Any:
    """Return flags as bytes, which is how a kernel reads and writes them."""
    if isinstance(x, tuple):
        return type(x)(*map(_as_bytes, x))
    return x.view(torch.uint8) if isinstance(x, Tensor) and x.dtype is torch.bool else x
