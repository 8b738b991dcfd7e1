"""Decide where kernels run, and launch them; the only module here that imports Triton, late."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from speculative_tts.models.gpu.triton_runtime import usable

WITHOUT_A_GPU = ("cpu", "meta")
_everywhere = False


def runs(x: Tensor) -> bool:
    """Return whether kernels compute with this tensor."""
    return usable(x.device) or (_everywhere and x.device.type in WITHOUT_A_GPU)


@contextmanager
def everywhere() -> Iterator[None]:
    """Run kernels on a CPU too, for tests: Triton has to interpret them (TRITON_INTERPRET=1).

    On device meta, whose tensors have no numbers, everything but the kernels themselves runs.
    """
    global _everywhere  # noqa: PLW0603 - of the process, as host.fixed
    before, _everywhere = _everywhere, True
    try:
        yield
    finally:
        _everywhere = before


def launch(kernel: str, grid: tuple[int, ...], *given: Any, **constants: Any) -> None:
    """Launch `module.name` of this package; nothing on device meta. Flags are passed as bytes."""
    tensors = [x for x in given if isinstance(x, Tensor)]
    if tensors[0].device.type == "meta":
        return
    module, name = kernel.split(".")
    kernels = importlib.import_module(f"speculative_tts.decoding.gpu.{module}")
    with np.errstate(all="ignore"):  # the interpreter's: NaN stands for "no distribution"
        getattr(kernels, name)[grid](*map(_bytes, given), **constants)


def _bytes(x: Any) -> Any:
    """A tensor of flags as one of bytes, which is what a kernel reads and writes."""
    return x.view(torch.uint8) if isinstance(x, Tensor) and x.dtype is torch.bool else x
