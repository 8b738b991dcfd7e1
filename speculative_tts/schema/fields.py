"""Say in a setting's type what it takes, and read that of a schema or a configuration object.

A type carries marks that OmegaConf and dataclasses do not see: the limits of a number
(`threads: Threads`; `check` enforces them when a configuration becomes an object, `--help` shows
them); whether a text is a path or words, taken as written with commas and quotes
(`path: ReadPath`); what runs did before a later setting came (`Annotated[bool, Since(False)]`);
that a setting decides nothing of a result (`Aside`).
"""

import dataclasses
import functools
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, TypeVar

from omegaconf.errors import ConfigKeyError

from speculative_tts.schema.kinds import kinds

Said = TypeVar("Said")
NONE = type(None)
_hints: dict[type[Any], dict[str, Any]] = {}  # by schema: they are slow to read
HUGE = 2**53  # from here on float64 cannot count
AUTO, ADAPTIVE = "auto", "adaptive"


@dataclass(frozen=True)
class Limit:
    """The numbers that a setting takes: `least` to `most`, without `least` itself if `above`.

    `words` are allowed instead of a number.
    """

    least: float | None = None
    most: float | None = None
    above: bool = False
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Describe the allowed values, for messages and help; empty without a limit."""
        if self.least is None:
            return ""
        least, most = f"{self.least:g}", "" if self.most is None else f"{self.most:.15g}"
        words = "".join(f", or {word}" for word in self.words)
        if self.above:
            return (f"more than {least}, up to {most}" if most else f"more than {least}") + words
        return (f"{least} to {most}" if most else f"{least} or more") + words

    def fault(self, value: float | str) -> str | None:
        """Return the fault of a number, or of a word instead; None if there is none."""
        if isinstance(value, str):
            return "is no number" if self.words and value not in self.words else None
        if not abs(value) < HUGE:
            return "is not a finite number below 2^53"
        if self.least is not None and self.above and value <= self.least:
            return f"is not above {self.least:g}"
        if self.least is not None and value < self.least:
            return f"is below {self.least:g}"
        return f"is above {self.most:.15g}" if self.most is not None and value > self.most else None


Count = Annotated[int, Limit(1)]
Few = Annotated[int, Limit(1, 1000)]
Lookahead = Annotated[int | str, Limit(1, 1000, words=(AUTO, ADAPTIVE))]
Several = Annotated[int, Limit(2, 100_000)]
Many = Annotated[int, Limit(1, 1_000_000)]
Whole = Annotated[int, Limit(0)]
Ids = Annotated[int, Limit(0, 1_000_000)]  # of a vocabulary, or tokens of a window of them
Threads = Annotated[int, Limit(1, 1024)]  # or processes: a million of them end in a segfault
Draws = Annotated[int, Limit(0, 100_000)]  # of a bootstrap, which holds them all in memory
Seed = Annotated[int, Limit(0, 2**32 - 1)]  # what numpy, torch and Python all take
Positive = Annotated[float, Limit(0, above=True)]
NonNegative = Annotated[float, Limit(0)]
PerWord = Annotated[float, Limit(0, 1000, above=True)]  # tokens, for which a cache has room
Size = Annotated[float, Limit(1)]
Share = Annotated[float, Limit(0, 1)]
Nucleus = Annotated[float, Limit(0, 1, above=True)]
Cosine = Annotated[float, Limit(-1, 1, above=True)]


class Holds(Enum):
    """The content of a key."""

    words = "words"
    read = "read"  # a file or folder that is read and never changed
    written = "written"  # a file or folder that is written
    kept = "kept"  # a folder that is read and written: runs, caches


Words = Annotated[str, Holds.words]
ReadPath = Annotated[str, Holds.read]


class Aside:
    """Mark of a setting that is no part of what a result is, such as who counts for a cache.

    Such settings are left out of a run's name and of a training's identity.
    """

    def leaves_out(self, value: Any) -> bool:  # noqa: ARG002
        """Return True if the setting is left out when it has this value."""
        return True


@dataclass(frozen=True)
class Since(Aside):
    """Mark of a later setting: `before` is what runs did that have no such setting.

    One with that value is left out, so that finished runs keep their names, and a training that was
    begun before goes on.
    """

    before: Any  # of a list a tuple: a type's marks are hashed

    def leaves_out(self, value: Any) -> bool:
        """Return True if a value is the former one."""
        return bool((tuple(value) if isinstance(value, list) else value) == self.before)


WrittenPath = Annotated[str, Holds.written, Aside()]
KeptPath = Annotated[str, Holds.kept, Aside()]


@dataclass(frozen=True)
class Given:
    """A field of a configuration object: dotted key, type, value, the object and the name there.

    `path` says what a field does with the path that it is set to; None of any other field.
    """

    key: str
    hint: Any
    value: Any
    config: Any
    name: str
    path: Holds | None


def said(hint: Any, what: type[Said]) -> Said | None:
    """Return a type's first mark of this class, searching lists and unions too."""
    for found in getattr(hint, "__metadata__", ()):
        if isinstance(found, what):
            return found
    inner = (said(part, what) for part in typing.get_args(hint))
    return next((one for one in inner if one is not None), None)


def hints_of(schema: type[Any]) -> dict[str, Any]:
    """Return the types of a dataclass's fields, with their marks; do not change it."""
    if schema not in _hints:
        _hints[schema] = typing.get_type_hints(schema, include_extras=True)
    return _hints[schema]


def key_types(schema: type[Any]) -> dict[str, Any]:
    """Return the type of every key of a schema, with those of groups (target.name) and kinds."""
    found = {}
    for one in (schema, *kinds(schema).values()):
        hints = hints_of(one)
        for entry in dataclasses.fields(one):
            found[entry.name] = hint = hints[entry.name]
            if isinstance(hint, type) and dataclasses.is_dataclass(hint):
                found |= {f"{entry.name}.{key}": kind for key, kind in key_types(hint).items()}
    return found


def given(config: Any, prefix: str = "") -> Iterator[Given]:
    """Yield every field of a configuration object; of a group, its fields instead.

    Raises OmegaConf's error for a key that its schema does not have: Hydra lets +unknown=1 pass.
    """
    hints = hints_of(type(config))
    for name, inner in vars(config).items():
        if name not in hints:
            unknown = ConfigKeyError(f"Key '{name}' not in '{type(config).__name__}'")
            unknown.full_key = prefix + name
            raise unknown
        if dataclasses.is_dataclass(inner):
            yield from given(inner, f"{prefix}{name}.")
        else:
            holds = None if inner is None else said(hints[name], Holds)
            path = None if holds is Holds.words else holds
            yield Given(prefix + name, hints[name], inner, config, name, path)


@functools.cache
def limit_of(hint: Any) -> Limit:
    """Return the limit in a field's type, inside lists and unions too, else any finite number."""
    return said(hint, Limit) or Limit()


@functools.cache
def types_of(hint: Any) -> frozenset[type]:
    """Return the plain types that a field takes, inside lists and unions too."""
    if isinstance(hint, type):
        return frozenset([hint])
    outer = [list] if typing.get_origin(hint) is list else []
    return frozenset(outer).union(*map(types_of, typing.get_args(hint)))


def check(config: Any, prefix: str = "") -> None:
    """Raise ValueError for the first value of a configuration beyond its type or its limit.

    OmegaConf has seen to the types of what was typed; a caller in Python may give any.
    """
    for one in given(config, prefix):
        takes, limit = types_of(one.hint), limit_of(one.hint)
        wanted = str(limit) or ("a text" if str in takes else "a smaller one")
        wanted += ", or null" if NONE in takes else ""
        if one.value is None and NONE not in takes:
            raise ValueError(f"{one.key} is null; give {wanted}")
        for value in one.value if isinstance(one.value, list) and list in takes else [one.value]:
            if fault := _fault(value, takes, limit):
                raise ValueError(f"{one.key} {value} {fault}; give {wanted}")


def _fault(value: Any, takes: frozenset[type], limit: Limit) -> str | None:
    """Return the fault of a single value where a field takes these types; None if it has none."""
    if isinstance(value, list | dict):
        return "is no single value"
    if type(value) not in (int, float, str) or any(issubclass(one, Enum) for one in takes):
        return None
    if isinstance(value, str) and str not in takes:
        return "is no number"
    if not isinstance(value, str) and not takes & {int, float}:
        return "is no text"
    if isinstance(value, float) and float not in takes:
        return "is no whole number"
    return limit.fault(value)


def is_verbatim(key: str, schema: type[Any]) -> bool:
    """Return whether a dotted key of a schema, or of one of its kinds, is taken as it is typed."""
    return bool(said(key_types(schema).get(key), Holds))
