"""Write the command that makes a run which a table lacks."""

import dataclasses
import functools
import shlex
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from speculative_tts.assets import configuration, configurations
from speculative_tts.schema.decode import DecodeConfig

GROUPS = ("target", "draft", "codec", "data")
SHIPPED = "tiny"  # the choice of these groups in configs/decode.yaml


def decode_command(
    where: Mapping[str, Any], context: Mapping[str, Any], out: str, experiment: str | None
) -> str:
    """Return `sst-decode ...` for a configuration in the context of a table's runs, then sst-eval.

    With an experiment it makes all runs of the table, and skips finished ones.
    """
    out = _word(out)
    if experiment:  # which sweeps the rest
        where = {key: value for key, value in where.items() if key.removesuffix(".name") in GROUPS}
    made = [*([f"experiment={experiment}"] if experiment else []), *_overrides(where)]
    command = " ".join(["sst-decode", *made, *_settings(context), f"out={out}"])
    return f"{command}, then sst-eval runs={out}"


def place(folder: Path) -> str:
    """Name a folder in a command, so that nothing of one machine is in it.

    Seen from here, or where it lies elsewhere its name alone.
    """
    given = folder if folder.is_absolute() else Path.cwd() / folder
    if given.is_relative_to(Path.cwd()):
        return str(given.relative_to(Path.cwd()))
    return f"<folder>/{folder.name}"


def _word(path: str) -> str:
    """Quote a path for a shell; `<folder>` is for the reader to fill in."""
    return path if path.startswith("<folder>") else shlex.quote(path)


def _overrides(where: Mapping[str, Any]) -> list[str]:
    """Return Hydra overrides; the name of a rule, a drafter or a list chooses its config file."""
    named = {f"{group}.name": group for group in ("rule", "drafter", *GROUPS)}
    return [
        f"{named[key]}={_choice(named[key], _text(value))}"
        if key in named
        else f"{key}={_text(value)}"
        for key, value in where.items()
    ]


def _choice(group: str, name: str) -> str:
    """Return the file of a group that has this name; the name itself where none has it."""
    files = _files(group)
    names = {one["name"]: file for file, one in files.items() if "name" in one}  # else a variant
    return name if name in files else names.get(name, name)


@functools.cache
def _files(group: str) -> Mapping[str, Mapping[str, Any]]:
    """Read the shipped files of a group, once for all that a report lacks."""
    return {file: configuration(f"{group}/{file}") for file in configurations(group)}


def _chosen(group: str, context: Mapping[str, Any]) -> list[str]:
    """Return overrides for a group's file, and for its path where that is not the file's."""
    choice = _choice(group, context.get(f"{group}.name", SHIPPED))
    settings = [] if choice == SHIPPED else [f"{group}={choice}"]
    known = _files(group).get(choice, {})
    path = context.get(f"{group}.path")
    if path is not None and path != known.get("path"):
        where = place(Path(path)) if Path(path).is_absolute() else path
        settings.append(f"{group}.path={_word(where)}")
    return settings


def _settings(context: Mapping[str, Any]) -> list[str]:
    """Return overrides for what sst-decode would not do by itself."""
    settings = [text for group in GROUPS for text in _chosen(group, context)]
    for entry in dataclasses.fields(DecodeConfig):
        default = entry.default.name if isinstance(entry.default, Enum) else entry.default
        if default is not dataclasses.MISSING and context.get(entry.name, default) != default:
            settings.append(f"{entry.name}={_text(context[entry.name])}")
    return settings


def _text(value: Any) -> str:
    if isinstance(value, tuple):  # any of them will do
        return _text(value[0])
    if value is None:
        return "null"
    return f"{value:g}" if isinstance(value, float) else str(value)
