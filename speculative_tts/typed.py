"""Read JSON, build dataclasses of it, checked against their types and limits, and write JSON."""

import dataclasses
import difflib
import functools
import json
import math
import types
import typing
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeVar

from speculative_tts.files import write_atomic
from speculative_tts.schema.fields import limit_of
from speculative_tts.texts import utf8

Object = TypeVar("Object")
WANTED = {
    str: "text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    tuple: "a list",
}
SHOWN = 40  # characters of a wrong value
FLAT = {"flat": True}  # metadata of a field whose own fields stand beside it in the file


def read_json(path: Path, remedy: str = "copy the file again") -> dict[str, Any]:
    """Read the JSON object of a file; ValueError with file, reason and remedy if it has none."""
    if not path.is_file():  # a pipe would be waited for
        raise ValueError(f"no file {path}; {remedy}")
    return json_object(path.read_bytes(), path, remedy)


def json_object(data: bytes, where: object, remedy: str) -> dict[str, Any]:
    """Parse one JSON object in UTF-8, perhaps after a byte order mark.

    Raises ValueError, which begins with `where`, for anything else and for a key that is there
    twice: of two values one would be dropped.
    """
    try:
        value = json.loads(utf8(data), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON
        raise ValueError(f"{where} is not a JSON object ({error}); {remedy}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{where} is not a JSON object but {short(value)}; {remedy}")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object's keys and values; ValueError for a key that is there twice."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {short(twice)} is there twice")
    return values


def json_text(value: Any, path: Path | None = None, **layout: Any) -> str:
    """Format a value as JSON that any program reads; `layout` is given to `json.dumps`.

    Raises ValueError naming the file that it is for, if given, and the first number that JSON has
    no word for: NaN or an infinity.
    """
    try:
        return json.dumps(value, allow_nan=False, **layout)
    except ValueError:
        if where := not_finite(value):
            raise ValueError(
                f"{f'{path}: ' if path else ''}{where}, which JSON cannot hold; look for NaN in "
                "the weights or audio it came from"
            ) from None
        raise


def write_json(path: Path, value: Any, *, sort_keys: bool = False) -> None:
    """Write one JSON document atomically, indented for people; ValueError as `json_text`."""
    write_atomic(path, json_text(value, path, indent=2, sort_keys=sort_keys) + "\n")


def not_finite(value: Any, at: str = "the value") -> str | None:
    """Return where a JSON value holds NaN or an infinity: `kl.2 is nan`; None if nowhere."""
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{at} is {value}"
    if isinstance(value, Mapping):
        entries: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list | tuple):
        entries = enumerate(value)
    else:
        return None
    above = "" if at == "the value" else f"{at}."
    places = (not_finite(one, f"{above}{key}") for key, one in entries)
    return next((place for place in places if place), None)


def typed(cls: type[Object], values: Mapping[str, Any], where: object) -> Object:
    """Build `cls` from JSON values, ignoring unknown keys.

    Raises ValueError for a value that is missing, of another type, or beyond its field's limit; the
    message begins with `where`.
    """
    found = {}
    for entry, hint in _fields(typing.cast("typing.Hashable", cls)):
        key = f"{where}: {entry.name}"
        if entry.metadata == FLAT:
            found[entry.name] = typed(hint, values, where)
        elif entry.name in values:
            found[entry.name] = _value(values[entry.name], hint, key)
        elif entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING:
            raise ValueError(f"{key} is missing; give {_wanted(hint)}")
    try:
        return cls(**found)
    except ValueError as error:  # of a __post_init__
        raise ValueError(f"{where}: {error}") from error


def exactly(
    cls: type[Object], values: Mapping[str, Any], where: object, also: Iterable[str] = ()
) -> Object:
    """Build `cls` as `typed` does; ValueError for a key that is neither its own nor in `also`."""
    own = [entry.name for entry, _ in _fields(typing.cast("typing.Hashable", cls))]
    refuse_unknown(values, [*own, *also], where)
    return typed(cls, values, where)


def refuse_unknown(keys: Iterable[str], known: Iterable[str], where: object) -> None:
    """Raise ValueError for the first key that is not known, naming the one it is nearest to."""
    there = list(known)
    for key in keys:
        if key not in there:
            near = difflib.get_close_matches(key, there, n=1, cutoff=0.5)
            remedy = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(there))}"
            raise ValueError(f"{where}: {short(key)} is no key here; {remedy}")


@functools.cache
def _fields(cls: Any) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return [(entry, hints[entry.name]) for entry in dataclasses.fields(cls)]


def _value(value: Any, hint: Any, key: str) -> Any:
    kind, parts, null = _parts(hint)
    if kind is Any or (value is None and null):
        return value
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        return typed(typing.cast("type[Any]", kind), value, key)
    if kind in (list, tuple) and isinstance(value, list):
        return kind(_value(one, parts[0], key) for one in value)
    if kind in (dict, Mapping) and isinstance(value, dict):
        return {name: _value(one, parts[1], f"{key}.{name}") for name, one in value.items()}
    return _scalar(value, kind, hint, key)


def _scalar(value: Any, kind: Any, hint: Any, key: str) -> Any:
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if kind in (int, float) and type(value) in (int, kind):
        if fault := limit_of(hint).fault(value):
            raise ValueError(f"{key} {value} {fault}; give {_wanted(hint)}")
        return value
    if kind in (str, bool) and type(value) is kind and not _torn(value):
        return value
    if isinstance(kind, type) and issubclass(kind, Enum) and value in list(kind.__members__):
        return kind[value]
    raise ValueError(f"{key} is {short(value)}; give {_wanted(hint)}")


@functools.cache
def _parts(hint: Any) -> tuple[Any, tuple[Any, ...], bool]:
    """Return the class of a type, its arguments, and whether it allows None."""
    kind, parts = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind is Annotated:
        plain = typing.get_origin(parts[0])
        return (plain, typing.get_args(parts[0]), False) if plain is list else (parts[0], (), False)
    if kind in (typing.Union, types.UnionType):
        (inner,) = (part for part in parts if part is not type(None))
        return *_parts(inner)[:2], True
    return kind, parts, False


def _torn(value: Any) -> bool:
    """Return True for text with a lone surrogate, which no file and no terminal takes."""
    try:
        return isinstance(value, str) and not value.isascii() and not value.encode()
    except UnicodeEncodeError:
        return True


def _wanted(hint: Any) -> str:
    """Describe the values that a field takes."""
    kind, _, null = _parts(hint)
    if isinstance(kind, type) and issubclass(kind, Enum):
        what = f"one of {', '.join(kind.__members__)}"
    else:
        limit = "" if kind in (list, tuple) else str(limit_of(hint))
        what = limit or WANTED.get(kind, "an object")
    return f"{what}, or null" if null else what


def short(value: Any) -> str:
    """Return a JSON value as the start of its text, for messages."""
    text = json.dumps(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
