"""What `make test` checks calls with: shapes and types of tensors, nothing else.

All other annotations are mypy's; tests hand in stubs where these say models. A call whose tensors
have the shapes and types of one that passed is not checked again: checks took longer than calls.
"""

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from inspect import signature
from types import UnionType
from typing import Any, Union, get_args, get_origin

import jaxtyping
from beartype.door import is_bearable
from jaxtyping import AbstractArray, TypeCheckError, jaxtyped

Function = Callable[..., Any]
Form = tuple[object, ...]
ABSENT = object()


def checked(function: Function) -> Function:
    """Return the function, raising for a tensor that is not as its signature has it."""
    notes = {name: _meant(note, function) for name, note in function.__annotations__.items()}
    shaped = {name: note for name, note in notes.items() if _has_shape(note)}
    if not shaped:
        return function
    places = [(i, name) for i, name in enumerate(signature(function).parameters) if name in shaped]
    check = _checker(shaped, function.__qualname__)

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        given = {
            name: args[i] if i < len(args) else options.get(name, ABSENT) for i, name in places
        }
        check(given)
        result = function(*args, **options)
        if "return" in shaped:
            check({**given, "return": result})
        return result

    return call


def _checker(shaped: dict[str, Any], function: str) -> Callable[[dict[str, object]], None]:
    """Return what raises for values that are not as these annotations have them."""
    passed: set[Form] = set()
    told_by_form = all(map(_is_told_by_form, shaped.values()))

    def check(values: dict[str, object]) -> None:
        form = tuple(map(_form, values.values()))
        if form in passed:
            return
        with jaxtyped("context"):  # type: ignore[call-overload]
            for name, value in values.items():
                if value is not ABSENT and not is_bearable(value, shaped[name]):
                    what = "the return value" if name == "return" else "the parameters"
                    raise TypeCheckError(
                        f"Type-check error whilst checking {what} of {function}: "
                        f"{name} is no {shaped[name]} among {dict(zip(values, form, strict=True))}"
                    )
        if told_by_form:
            passed.add(form)

    return check


def check_shapes_alone() -> None:
    """Let the import hook of jaxtyping, where one is installed, wrap functions by `checked` alone.

    Its own way binds the arguments of every call twice, also of functions without any shape.
    """
    jaxtyping.jaxtyped = _jaxtyped_if_shaped


def _jaxtyped_if_shaped(*, typechecker: Callable[[Function], Function]) -> Callable[[Any], Any]:
    """Return what the hook decorates every function and class with."""

    def decorate(made: Any) -> Any:
        if not isinstance(made, type):
            return typechecker(made)
        if is_dataclass(made) and "__init__" in vars(made):
            made.__init__ = typechecker(made.__init__)  # type: ignore[misc]
        return made

    return decorate


def _form(value: Any) -> Form:
    """Return all that a check reads of a tensor, or of a tuple of tensors."""
    if isinstance(value, tuple):
        return type(value), *map(_form, value)
    return type(value), getattr(value, "dtype", None), getattr(value, "shape", None)


def _is_told_by_form(note: Any) -> bool:
    """Return whether `_form` holds all that this annotation speaks of: not of lists."""
    origin = get_origin(note)
    if origin in (Union, UnionType, tuple):
        return all(map(_is_told_by_form, get_args(note)))
    return isinstance(note, type) and origin is None


def _meant(note: Any, function: Function) -> Any:
    """Return what an annotation in quotes says; Any for one that needs imports for mypy alone."""
    try:
        return eval(note, function.__globals__) if isinstance(note, str) else note
    except (NameError, AttributeError):
        return Any


def _has_shape(note: Any) -> bool:
    """Is it a tensor's, or has one in it?"""
    if isinstance(note, type) and issubclass(note, AbstractArray):
        return True
    return any(_has_shape(part) for part in get_args(note))
