"""What `make test` checks calls with: shapes and types of tensors, nothing else.

All other annotations are mypy's; tests hand in stubs where these say models.
"""

from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, get_args

import jaxtyping
from beartype import beartype
from jaxtyping import AbstractArray, jaxtyped

Function = Callable[..., Any]


def checked(function: Function) -> Function:
    """Return the function, raising for a tensor that is not as its signature has it."""
    notes = {name: _meant(note, function) for name, note in function.__annotations__.items()}
    function.__annotations__ = {n: note if _has_shape(note) else Any for n, note in notes.items()}
    return beartype(function) if set(function.__annotations__.values()) != {Any} else function


def check_shapes_alone() -> None:
    """Let the import hook of jaxtyping wrap what has a shape in its signature, and nothing else.

    It binds the arguments of every call otherwise, twice, which took longer than most calls.
    """
    jaxtyping.jaxtyped = _jaxtyped_if_shaped


def _jaxtyped_if_shaped(*, typechecker: Callable[[Function], Function]) -> Callable[[Any], Any]:
    """Return what the hook decorates every function and class with."""

    def decorate(made: Any) -> Any:
        function = made.__init__ if is_dataclass(made) else made
        notes = getattr(function, "__annotations__", {}).values()
        shaped = any(_has_shape(_meant(note, function)) for note in notes)
        return jaxtyped(made, typechecker=typechecker) if shaped else made

    return decorate


def _meant(note: Any, function: Function) -> Any:
    """Return what an annotation in quotes says; Any for one that needs imports for mypy alone."""
    try:
        return eval(note, function.__globals__) if isinstance(note, str) else note
    except (NameError, AttributeError):
        return Any


def _has_shape(note: Any) -> bool:
    """Is it a tensor's, or has it one in it?"""
    if isinstance(note, type) and issubclass(note, AbstractArray):
        return True
    return any(_has_shape(part) for part in get_args(note))
