"""Declare groups of settings that come in kinds: each kind is a subclass with its own keys.

A field of the base class takes any of them, and `<group>=<kind>` chooses one, so that a key which
it does not have is refused. `configs/<group>/<name>.yaml` is needed for other defaults than those
of the class alone; it names `<kind>_schema` in its own.
"""

import dataclasses
import typing
from dataclasses import dataclass
from typing import Any, ClassVar

from omegaconf import MISSING

IMPLIED = {  # frozen: a kind that comes later is chosen by its name, so that no old command changes
    "drafter.entropy": "lm",
    "drafter.longest": "lookup",
    "drafter.shortest": "lookup",
    "drafter.codes": "recurrent",
    "drafter.dtype": "recurrent",
    "drafter.path": "recurrent",
    "rule.beta": "tolerance",
    "rule.groups": "group",
    "rule.alpha": "typical",
    "rule.epsilon": "typical",
    "rule.most": "divergence",
    "rule.ratio": "neighbours",
    "rule.distance": "dynamic",
    "rule.gap": "dynamic",
    "rule.reach": "dynamic",
}
"""The kind that a key asks for where none is chosen."""


@dataclass
class Kind:
    """The base of each group's base class."""

    group: ClassVar[str]  # of configs/
    # `module:function` that makes the thing of its settings: found when it is built, not before,
    # so that reading settings imports nothing heavy
    built_by: ClassVar[str]
    name: str = MISSING  # always the class's own: the group's choice selects a kind


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
    """Return which choice each key of `IMPLIED` asks for: ("rule.beta", "rule=tolerance")."""
    there = kinds_in(schema)
    choices = [(key, f"{key.partition('.')[0]}={kind}") for key, kind in IMPLIED.items()]
    return [(key, choice) for key, choice in choices if key.partition(".")[0] in there]
