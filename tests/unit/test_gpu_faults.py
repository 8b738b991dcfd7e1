"""Each kernel has a fault that its tests plant, and must find."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import kernel_builds
import pytest
import round_builds
from barriers import Races, sources_of

TESTS = Path(__file__).parent
FOLDERS = {
    kernel_builds.PACKAGE: TESTS / "models" / "gpu",
    round_builds.PACKAGE: TESTS / "decoding" / "gpu",
}


@cache
def planted(package: str) -> dict[tuple[str, str], list[str]]:
    """Texts that tests replace, by module and function: they stand in one place of the kernels."""
    texts = {
        node.value
        for file in FOLDERS[package].glob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    faults = [text for text in texts if not re.fullmatch(r"[\w,. ]*", text)]
    found: dict[tuple[str, str], list[str]] = {}
    for module, source in sources_of(package).items():
        for function in ast.parse(source).body:
            if isinstance(function, ast.FunctionDef):
                own = ast.get_source_segment(source, function) or ""
                here = [text for text in faults if text in own and source.count(text) == 1]
                found[module, function.name] = here
    return found


def reached(races: Races, module: str, name: str) -> Iterator[tuple[str, str]]:
    """A kernel and the helpers that are compiled into it."""
    of, function = races.functions[module, name]
    yield of, name
    for node in ast.walk(function):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if (of, called) in races.functions:
            yield from reached(races, of, called)


KERNELS = [(package, *kernel) for package in FOLDERS for kernel in Races(package).kernels]


@pytest.mark.parametrize(("package", "module", "kernel"), KERNELS)
def test_a_fault_is_planted_in_every_kernel(package: str, module: str, kernel: str) -> None:
    faults = planted(package)
    assert any(faults[place] for place in reached(Races(package), module, kernel))
