"""Faults planted in kernels, which tests of these must find."""

import pkgutil
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

import pytest
from kernel_builds import module_at
from triton_tests import faulty

ROUNDS, STEPS = "decoding.gpu.kernels", "models.gpu.kernels"
Fault = tuple[str, str, str, Callable[[], bool]]
"""A module, what stands there, what is planted, and whether kernels then differ from torch."""


def finds(faults: Iterable[Fault], package: str = ROUNDS) -> Callable[..., None]:
    """Return a test that plants each fault, a case of its own, and demands that it is found."""

    @pytest.mark.parametrize(
        ("module", "right", "wrong", "differs"),
        [pytest.param(*one, id=f"{one[0]} {one[2]}") for one in faults],
    )
    def test(
        module: str,
        right: str,
        wrong: str,
        differs: Callable[[], bool],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        plant(monkeypatch, module, right, wrong, tmp_path, package)
        assert differs()

    return test


def plant(
    patch: pytest.MonkeyPatch,
    kernels: str,
    right: str,
    wrong: str,
    folder: Path,
    package: str = ROUNDS,
) -> None:
    """Launch kernels of a module, or those that use its helpers, from a copy that has a fault."""
    planted = module_at(faulty(kernels, right, wrong, folder, package))
    found = import_module(f"speculative_tts.{package}")
    names = [one.name for one in pkgutil.iter_modules(found.__path__)]
    modules = [import_module(f"{found.__name__}.{name}") for name in names]
    own = {name: made for name, made in vars(planted).items() if _of(made) == planted.__name__}
    for name, made in own.items():
        for module in (one for one in modules if hasattr(one, name)):
            patch.setattr(module, name, made)


def _of(made: object) -> str:
    """Return the module that a kernel or its helper was written in."""
    return getattr(getattr(made, "fn", None), "__module__", "")
