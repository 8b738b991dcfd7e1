"""Keys whose values are taken as they are written: paths and words, commas and quotes included.

A field says so in its type: `path: ReadPath`. Command lines, the writer of files and checks follow
that; OmegaConf and dataclasses see the text behind `Annotated`.
"""

import dataclasses
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any


class Holds(Enum):
    """What a key holds."""

    words = "words"
    read = "read"  # a file or folder that is read and never changed
    written = "written"  # a file or folder that is written
    kept = "kept"  # a folder that is read and written: runs, caches


Words = Annotated[str, Holds.words]
ReadPath = Annotated[str, Holds.read]
WrittenPath = Annotated[str, Holds.written]
KeptPath = Annotated[str, Holds.kept]


@dataclass(frozen=True)
class Given:
    """A path in a configuration object: its dotted key, what it holds, and where it stands."""

    key: str
    holds: Holds
    config: Any
    name: str

    @property
    def value(self) -> str:
        """The path."""
        return str(getattr(self.config, self.name))


def verbatim_keys(schema: type[Any], prefix: str = "") -> set[str]:
    """Every dotted key of a schema that is verbatim, those of its subclasses too."""
    found = set()
    for kind in (schema, *schema.__subclasses__()):
        for name, hint in typing.get_type_hints(kind, include_extras=True).items():
            if _holds(hint):
                found.add(prefix + name)
            elif isinstance(hint, type) and dataclasses.is_dataclass(hint):
                found |= verbatim_keys(hint, f"{prefix}{name}.")
    return found


def given_paths(config: Any, prefix: str = "") -> Iterator[Given]:
    """Every path of a configuration object that is set."""
    hints = typing.get_type_hints(type(config), include_extras=True)
    for entry in dataclasses.fields(config):
        value, holds = getattr(config, entry.name), _holds(hints[entry.name])
        if dataclasses.is_dataclass(value):
            yield from given_paths(value, f"{prefix}{entry.name}.")
        elif holds not in (None, Holds.words) and value is not None:
            assert holds is not None
            yield Given(prefix + entry.name, holds, config, entry.name)


def _holds(hint: Any) -> Holds | None:
    """What a field's type says; in a union too."""
    for found in getattr(hint, "__metadata__", ()):
        if isinstance(found, Holds):
            return found
    inner = (_holds(part) for part in typing.get_args(hint))
    return next((holds for holds in inner if holds is not None), None)
