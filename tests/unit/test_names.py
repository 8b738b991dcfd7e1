"""A class name is declared once, so that a message or a stack trace says which class it is of."""

import ast
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

PACKAGES = [*Path(__file__).parents[2].glob("speculative_tts*")]
TWICE = {  # why a name is declared twice
    # sst-export puts integrations/recurrent_drafter.py beside weights: their config.json names it
    "RecurrentDrafter",
    "RecurrentDrafterConfig",
}


def repeated(sources: Iterable[str]) -> set[str]:
    """Return the class names that these sources declare more than once."""
    nodes = (node for source in sources for node in ast.walk(ast.parse(source)))
    counts = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    return {name for name, count in counts.items() if count > 1}


def test_a_class_name_is_declared_once() -> None:
    paths = (path for package in PACKAGES for path in package.rglob("*.py"))
    assert repeated(path.read_text() for path in paths) == TWICE


def test_a_name_that_is_declared_twice_would_be_found() -> None:
    assert repeated(["class A: ...", "class B:\n    class A: ..."]) == {"A"}
