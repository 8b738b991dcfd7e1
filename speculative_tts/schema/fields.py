"""Dotted keys of a schema or of a configuration object, and what their types say of them.

`threads: Annotated[int, Limit(1)]`: OmegaConf and dataclasses see the type behind `Annotated`, who
asks for a `Limit` gets that.
"""

import dataclasses
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from speculative_tts.schema.kinds import kinds

Said = TypeVar("Said")


@dataclass(frozen=True)
class Given:
    """A field of a configuration object: its dotted key and type, and where its value stands."""

    key: str
    hint: Any
    config: Any
    name: str

    @property
    def value(self) -> Any:
        """What was given."""
        return getattr(self.config, self.name)


def said(hint: Any, what: type[Said]) -> Said | None:
    """The first thing of this class that a type says, inside lists and unions too."""
    for found in getattr(hint, "__metadata__", ()):
        if isinstance(found, what):
            return found
    inner = (said(part, what) for part in typing.get_args(hint))
    return next((one for one in inner if one is not None), None)


def key_types(schema: type[Any]) -> dict[str, Any]:
    """The type of every key of a schema, of groups (target, target.name) and their kinds too."""
    found = {}
    for one in (schema, *kinds(schema).values()):
        hints = typing.get_type_hints(one, include_extras=True)
        for entry in dataclasses.fields(one):
            found[entry.name] = hint = hints[entry.name]
            if isinstance(hint, type) and dataclasses.is_dataclass(hint):
                found |= {f"{entry.name}.{key}": kind for key, kind in key_types(hint).items()}
    return found


def given(config: Any, prefix: str = "") -> Iterator[Given]:
    """Every field of a configuration object; of a group its fields instead."""
    hints = typing.get_type_hints(type(config), include_extras=True)
    for entry in dataclasses.fields(config):
        if dataclasses.is_dataclass(inner := getattr(config, entry.name)):
            yield from given(inner, f"{prefix}{entry.name}.")
        else:
            yield Given(prefix + entry.name, hints[entry.name], config, entry.name)
