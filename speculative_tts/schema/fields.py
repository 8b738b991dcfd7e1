"""Walk the dotted keys of a schema or configuration object, and read the marks of their types.

A mark stands in the type, `threads: Annotated[int, Limit(1)]`. OmegaConf and dataclasses see the
plain type; `said(hint, Limit)` returns the mark.
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
    """A field of a configuration object: dotted key, type, the object and the name there."""

    key: str
    hint: Any
    config: Any
    name: str

    @property
    def value(self) -> Any:
        """The field's value."""
        return getattr(self.config, self.name)


def said(hint: Any, what: type[Said]) -> Said | None:
    """Return a type's first mark of this class, searching lists and unions too."""
    for found in getattr(hint, "__metadata__", ()):
        if isinstance(found, what):
            return found
    inner = (said(part, what) for part in typing.get_args(hint))
    return next((one for one in inner if one is not None), None)


def key_types(schema: type[Any]) -> dict[str, Any]:
    """Return the type of every key of a schema, with those of groups (target.name) and kinds."""
    found = {}
    for one in (schema, *kinds(schema).values()):
        hints = typing.get_type_hints(one, include_extras=True)
        for entry in dataclasses.fields(one):
            found[entry.name] = hint = hints[entry.name]
            if isinstance(hint, type) and dataclasses.is_dataclass(hint):
                found |= {f"{entry.name}.{key}": kind for key, kind in key_types(hint).items()}
    return found


def given(config: Any, prefix: str = "") -> Iterator[Given]:
    """Yield every field of a configuration object; of a group, its fields instead."""
    hints = typing.get_type_hints(type(config), include_extras=True)
    for entry in dataclasses.fields(config):
        if dataclasses.is_dataclass(inner := getattr(config, entry.name)):
            yield from given(inner, f"{prefix}{entry.name}.")
        else:
            yield Given(prefix + entry.name, hints[entry.name], config, entry.name)
