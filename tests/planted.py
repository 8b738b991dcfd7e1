"""Faults planted in kernels of rounds, which tests of these must find."""

from importlib import import_module
from pathlib import Path

import pytest
from kernel_builds import module_at
from triton_tests import faulty

PACKAGE = "decoding.gpu.kernels"


def plant(patch: pytest.MonkeyPatch, kernels: str, right: str, wrong: str, folder: Path) -> None:
    """Launch kernels of a module from a copy of it that has a fault."""
    planted = module_at(faulty(kernels, right, wrong, folder, PACKAGE))
    module = import_module(f"speculative_tts.{PACKAGE}.{kernels}")
    for name in [name for name in vars(module) if name.endswith("_kernel")]:
        patch.setattr(module, name, getattr(planted, name))
