"""Declare groups of settings that come in kinds: each kind is a subclass with its own keys.

A field of the base class takes any of them; `configs/<group>/<kind>.yaml` names `<kind>_schema` in
its defaults, so that a key which the chosen kind does not have is refused.
"""

import dataclasses
import typing
from dataclasses import dataclass
from typing import Any, ClassVar

from omegaconf import MISSING


@dataclass
class Kind:
    """The base of each group's base class."""

    group: ClassVar[str]  # of configs/
    name: str = MISSING

    def __post_init__(self) -> None:
        """Raise ValueError for a changed name: the group's choice selects a kind, not its name."""
        if self.name != (chosen := type(self).name):
            there = ", ".join(kinds(type(self).__bases__[0]))
            raise ValueError(
                f"{self.group}.name={self.name} renames {self.group}={chosen}; "
                f"give {self.group}=<one of {there}>"
            )


def kinds_in(schema: type[Any]) -> dict[str, dict[str, type[Any]]]:
    """Return the kinds by name of each field of a schema that has kinds."""
    hints = typing.get_type_hints(schema)
    fields = {entry.name: hints[entry.name] for entry in dataclasses.fields(schema)}
    found = {name: kinds(hint) for name, hint in fields.items() if isinstance(hint, type)}
    return {name: kinds for name, kinds in found.items() if kinds}


def kinds(base: type[Any]) -> dict[str, type[Any]]:
    """Return the subclasses of a group's base class by name; empty for other classes."""
    return {kind().name: kind for kind in base.__subclasses__()} if issubclass(base, Kind) else {}


def own_keys(base: type[Any]) -> set[str]:
    """Return the names of a dataclass's fields."""
    return {entry.name for entry in dataclasses.fields(base)}


def asked_for(schema: type[Any]) -> list[tuple[str, str]]:
    """Which choice a key asks for that one kind alone has: ("rule.beta", "rule=tolerance")."""
    found = []
    for group, known in kinds_in(schema).items():
        keys = [(key, name) for name, kind in known.items() for key in sorted(own_keys(kind))]
        alone = [key for key, _ in keys]
        found += [(f"{group}.{k}", f"{group}={name}") for k, name in keys if alone.count(k) == 1]
    return found
