"""Faults planted in kernels of rounds, which tests of these must find."""

import pkgutil
from importlib import import_module
from pathlib import Path

import pytest
from kernel_builds import module_at
from triton_tests import faulty

PACKAGE = "decoding.gpu.kernels"


def plant(patch: pytest.MonkeyPatch, kernels: str, right: str, wrong: str, folder: Path) -> None:
    """Launch kernels of a module, or those that use its helpers, from a copy that has a fault."""
    planted = module_at(faulty(kernels, right, wrong, folder, PACKAGE))
    package = import_module(f"speculative_tts.{PACKAGE}")
    names = [found.name for found in pkgutil.iter_modules(package.__path__)]
    modules = [import_module(f"speculative_tts.{PACKAGE}.{name}") for name in names]
    own = {name: made for name, made in vars(planted).items() if _of(made) == planted.__name__}
    for name, made in own.items():
        for module in (one for one in modules if hasattr(one, name)):
            patch.setattr(module, name, made)


def _of(made: object) -> str:
    """Return the module that a kernel or its helper was written in."""
    return getattr(getattr(made, "fn", None), "__module__", "")
