"""What `make test` checks calls with: shapes and types of tensors, nothing else.

All other annotations are mypy's; tests hand in stubs where these say models.
"""

from collections.abc import Callable
from typing import Any, get_args

from beartype import beartype
from jaxtyping import AbstractArray

Function = Callable[..., Any]


def checked(function: Function) -> Function:
    """The function, raising for a tensor that is not as its signature has it."""
    notes = {name: _meant(note, function) for name, note in function.__annotations__.items()}
    function.__annotations__ = {n: note if _has_shape(note) else Any for n, note in notes.items()}
    return beartype(function) if set(function.__annotations__.values()) != {Any} else function


def _meant(note: Any, function: Function) -> Any:
    """An annotation in quotes as what it says; one that needs imports for mypy alone as Any."""
    try:
        return eval(note, function.__globals__) if isinstance(note, str) else note
    except (NameError, AttributeError):
        return Any


def _has_shape(note: Any) -> bool:
    """Is it a tensor's, or has it one in it?"""
    if isinstance(note, type) and issubclass(note, AbstractArray):
        return True
    return any(_has_shape(part) for part in get_args(note))
