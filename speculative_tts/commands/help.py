"""The text of `--help`: what a command does, examples to copy, every key with default and meaning.

Meanings come from the comments beside the fields in `schema`, defaults from the composed
configuration.
"""

import dataclasses
import inspect
import re
import typing
from enum import Enum
from importlib.resources import files
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from speculative_tts.commands.app import Command

HYDRA = """\
Lists of values sweep: rule.beta=0,0.2,0.4 runs the command three times.
Configurations of your own: --config-dir FOLDER (laid out like the package's configs).
Exit codes: 0 done, 2 bad input (one line says what), other: something failed.
The whole configuration: --cfg job.  Hydra's own flags: --hydra-help.  A traceback: SST_DEBUG=1."""

WIDEST = 40  # a key with its default that is longer stands on a line of its own


def help_text(command: "Command[Any]") -> str:
    """Everything that `sst-... --help` prints."""
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf

    with initialize_config_module("speculative_tts.configs", version_base="1.3"):
        config = compose(command.name, return_hydra_config=True)
    choices = dict(config.hydra.runtime.choices)
    values = OmegaConf.to_container(config, resolve=False)
    assert isinstance(values, dict)
    examples = "\n".join(f"  {example}" for example in command.examples)
    rows = [*_group_rows(choices, command.schema), *_rows(command.schema, values, choices, "")]
    indent = max(len(left) for left, _ in rows if len(left) <= WIDEST) + 4
    table = "\n".join(_wrapped(f"  {left}", right, indent) for left, right in rows)
    return (
        f"{command.program}: {command.about}\n\nUsage: {command.program} [key=value ...]\n\n"
        f"Examples:\n{examples}\n\nKeys, with their defaults:\n{table}\n\n{HYDRA}"
    )


def comments(schema: type[Any]) -> dict[str, str]:
    """The comment beside, or on the lines above, each field of a dataclass."""
    found: dict[str, str] = {}
    above: list[str] = []
    for line in inspect.getsource(schema).splitlines():
        if match := re.match(r"    (\w+):.*?(?:  # (.*))?$", line):
            meaning = " ".join([*above, match[2] or ""]).strip()
            found[match[1]] = _null(meaning)
            above = []
        elif match := re.match(r"    # (.*)", line):
            above.append(match[1])
    return found


def options(group: str) -> list[str]:
    """Names of the packaged files of a config group, one folder deeper included (ssd/table1)."""
    folder = files("speculative_tts.configs") / group
    found = []
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.name.endswith(".yaml"):
            found.append(entry.name.removesuffix(".yaml"))
        elif entry.is_dir():
            found += [f"{entry.name}/{name}" for name in options(f"{group}/{entry.name}")]
    return sorted(found)


def _group_rows(choices: dict[str, Any], schema: type[Any]) -> list[tuple[str, str]]:
    """Groups that set several keys at once, such as experiment."""
    fields = {entry.name for entry in dataclasses.fields(schema)}
    groups = [group for group in choices if "/" not in group and group not in fields]
    return [
        (f"{group}={choices[group] or ''}", f"one of: {', '.join(options(group))}")
        for group in sorted(groups)
    ]


def _rows(
    schema: type[Any], values: Any, choices: dict[str, Any], prefix: str
) -> list[tuple[str, str]]:
    types, meanings, rows = typing.get_type_hints(schema), comments(schema), []
    for entry in dataclasses.fields(schema):
        kind, key, meaning = types[entry.name], prefix + entry.name, meanings.get(entry.name, "")
        if dataclasses.is_dataclass(kind):
            assert isinstance(kind, type)
            about = _null((kind.__doc__ or "").partition("\n")[0])
            if key in choices and (there := options(key)):
                about = f"{about} One of: {', '.join(there)}"
            rows.append((f"{key}={choices.get(key) or ''}", about))
            rows += _rows(kind, values[entry.name], choices, f"{key}.")
        else:
            if isinstance(kind, type) and issubclass(kind, Enum):
                meaning = f"{', '.join(kind.__members__)}. {meaning}".strip()
            rows.append((f"{'  ' if prefix else ''}{key}={_shown(values[entry.name])}", meaning))
    return rows


def _null(text: str) -> str:
    """None, as YAML and the command line write it."""
    return re.sub(r"\bNone\b", "null", text)


def _wrapped(left: str, right: str, indent: int) -> str:
    """Two columns, the right one wrapped to the terminal; a very long left has a line alone."""
    width = max(get_terminal_size((100, 24)).columns, indent + 30)
    lines = wrap(right, width - indent) or [""]
    if len(left) + 2 > indent:
        lines, left = ["", *lines], f"{left:<{indent}}"
    return "\n".join(
        [f"{left:<{indent}}{lines[0]}".rstrip(), *(" " * indent + line for line in lines[1:])]
    )


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if value == "???":
        return ""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, list):
        return f"[{','.join(map(str, value))}]"
    return str(value)
