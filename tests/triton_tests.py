"""Where tests run Triton's kernels: on a GPU if there is one, else in Triton's interpreter.

Import this before anything that imports Triton: it reads TRITON_INTERPRET when a kernel is defined.
The interpreter computes bfloat16 wrongly, so off a GPU kernels are compared in float32, on inputs
that are rounded to bfloat16.
"""

import importlib.util
import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
if DEVICE.type == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"
HAS_TRITON = importlib.util.find_spec("triton") is not None
needs_triton = pytest.mark.skipif(
    not HAS_TRITON, reason="Triton is not installed; install the extra `triton`"
)


def spare_patches() -> None:
    """Let the interpreter patch Triton's language once a launch, not at each call of a helper.

    It looked through all names of the language for what it had patched: a third of these tests.
    """
    from triton import language as tl
    from triton.runtime.errors import InterpreterError
    from triton.runtime.interpreter import InterpretedFunction

    call = InterpretedFunction.__call__

    @cache
    def languages(function: Callable[..., Any]) -> list[Any]:
        return [one for one in (tl, tl.core) if one in function.__globals__.values()]

    def call_patched(self: Any, *args: Any, **options: Any) -> Any:
        if any(tl.core.is_builtin(language.load) for language in languages(self.fn)):
            return call(self, *args, **options)
        try:
            return self.rewrite()(*args, **options)
        except Exception as error:
            raise InterpreterError(repr(error)) from error

    InterpretedFunction.__call__ = call_patched


def spare_checks() -> None:
    """Let the interpreter compute no check that it then drops, and no table of types at each step.

    It asserts overflows of integers in its debug mode alone, and computed them in 64 bits for that:
    a third of what was left of these tests.
    """
    from triton.runtime import interpreter

    builder = interpreter.interpreter_builder
    assert not builder.options.debug
    builder.options = replace(builder.options, sanitize_overflow=False)
    numpys, known = interpreter._get_np_dtype, {}

    def type_of_numpy(kind: Any) -> Any:
        name = kind.scalar.name
        return known[name] if name in known else known.setdefault(name, numpys(kind))

    interpreter._get_np_dtype = type_of_numpy


if HAS_TRITON and DEVICE.type == "cpu":
    spare_patches()
    spare_checks()


def rounded(*shape: int, generator: torch.Generator) -> Tensor:
    """Return normal numbers that bfloat16 holds exactly, in float32."""
    numbers = torch.randn(*shape, generator=generator).bfloat16().float()
    return numbers.to(DEVICE)


def faulty(
    kernels: str, right: str, wrong: str, folder: Path, package: str = "models.gpu.kernels"
) -> Path:
    """Write a module of kernels into a folder with a fault planted in its source.

    Skips the test on a GPU: a fault may reach memory that is not there, after which a process can
    use the GPU no more (18 tests of an H100 failed after one).
    """
    if DEVICE.type == "cuda":
        pytest.skip("a planted fault may end a process's use of its GPU; the interpreter finds it")
    found = importlib.util.find_spec(f"speculative_tts.{package}")
    assert found is not None
    (place,) = found.submodule_search_locations or []
    source = (Path(place) / f"{kernels}.py").read_text()
    assert source.count(right) == 1, f"{right!r} is there {source.count(right)} times"
    file = folder / f"faulty_{kernels}.py"
    file.write_text(source.replace(right, wrong))
    return file


def kernels_in(package: str) -> set[str]:
    """Return `module.name` of all kernels that a package's modules define."""
    found = importlib.util.find_spec(package)
    assert found is not None
    (place,) = found.submodule_search_locations or []
    return {
        f"{file.stem}.{name}"
        for file in Path(place).glob("*.py")
        for name in re.findall(r"^def (\w+_kernel)\(", file.read_text(), re.MULTILINE)
    }
