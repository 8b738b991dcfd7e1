"""Write the text of `--help`: purpose, examples to copy, keys with defaults and meanings.

A command's own keys come first, a group of keys as a line; `--help=<group>` lists what is in it.
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
from typing import Any

from speculative_tts.assets import configurations, kinds_of
from speculative_tts.commands.composing import CONFIGS, Described, compose_one
from speculative_tts.schema.fields import limit_of
from speculative_tts.schema.kinds import kinds

HYDRA = """\
Lists of values sweep: key=1,2,3 runs the command three times.
Configurations of your own: --config-dir FOLDER (laid out like the package's configs).
Exit codes: 0 done, 2 bad input (one line says what), other: something failed.
The whole configuration: --cfg job.  Hydra's own flags: --hydra-help.  A traceback: SST_DEBUG=1."""

GROUPS_HEADING = """\
Groups (group=choice, group.key=value; --help=<group> explains one, --help=all everything):"""
SEVERAL = {  # groups that set keys of other groups
    "experiment": "Runs of a paper's table or figure: the settings they share, and their sweep.",
    "family": "Another kind of target, with the steps and folders that suit it.",
    "method": "A method by its name: sets system and rule.",
    "recipe": "Settings that suit a target, or made a shipped model.",
}
MANY = 12
WIDEST = 40  # a longer key=default gets a line of its own


@dataclasses.dataclass(frozen=True)
class _Shown:
    """A command's schema, its composed values, and which file each config group chose."""

    schema: type[Any]
    values: dict[Any, Any]
    choices: dict[str, Any]

    @property
    def several(self) -> list[str]:
        """Config groups that set keys of other groups, such as experiment."""
        fields = {entry.name for entry in dataclasses.fields(self.schema)}
        return sorted(g for g in self.choices if "/" not in g and g not in fields)

    @property
    def nested(self) -> dict[str, type[Any]]:
        types = typing.get_type_hints(self.schema)
        names = [entry.name for entry in dataclasses.fields(self.schema)]
        return {name: types[name] for name in names if dataclasses.is_dataclass(types[name])}


def help_text(command: Described[Any], topic: str = "") -> str:
    """Return the text of `--help`; `topic` is the value of --help=<group> or --help=all.

    Raises ValueError for a topic that is no group of this command.
    """
    from omegaconf import OmegaConf

    config = compose_one(command.name, ())
    values = OmegaConf.to_container(config, resolve=False)
    assert isinstance(values, dict)
    shown = _Shown(command.schema, values, dict(config.hydra.runtime.choices))
    groups = [*shown.several, *shown.nested]
    if topic not in {"", "all", *groups}:
        raise ValueError(f"--help={topic}: no such group; there are {', '.join(groups)}, all")
    if topic not in {"", "all"}:
        return _table([*_option_rows(topic), *_key_rows(shown, topic)])
    own, about = _key_rows(shown), _group_rows(shown)
    rows = {left.partition("=")[0].strip(): (left, right) for left, right in (*about, *own)}
    first = [rows[key] for key in command.first]
    if topic == "all":
        pairs = zip(groups, about, strict=True)
        about = [row for group, line in pairs for row in (line, *_key_rows(shown, group))]
    others = _table([row for row in own if row not in first])
    sections = [
        f"{command.program}: {command.about}",
        f"Usage: {command.program} [key=value ...]",
        "\n".join(["Examples:", *(f"  {example}" for example in command.examples)]),
        *([f"First:\n{_table(first)}"] if first else []),
        f"{'Other keys' if first else 'Keys'}, with their defaults:\n{others}",
        *([f"{GROUPS_HEADING}\n{_table(about)}"] if about else []),
        HYDRA,
    ]
    return "\n\n".join(sections)


def comments(schema: type[Any]) -> dict[str, str]:
    """Return the comment beside or above each field of a dataclass and of its bases."""
    found: dict[str, str] = {}
    above: list[str] = []
    written = [inspect.getsource(base) for base in schema.__mro__[-2::-1]]
    for line in "".join(written).splitlines():
        if match := re.match(r"    (\w+):.*?(?:  # (.*))?$", line):
            meaning = " ".join([*above, match[2] or ""]).strip()
            found[match[1]] = _null(meaning)
            above = []
        elif match := re.match(r"    # (.*)", line):
            above.append(match[1])
    return found


def options(group: str) -> list[str]:
    """List the packaged choices of a config group, with files one folder deeper (ssd/table1)."""
    folder = files(CONFIGS) / group
    found = configurations(group)
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.is_dir():
            found += [f"{entry.name}/{name}" for name in options(f"{group}/{entry.name}")]
    return sorted(found)


def _group_rows(shown: _Shown) -> list[tuple[str, str]]:
    """Make a row per group: its meaning, its choices, its keys."""
    rows = [(f"{g}={shown.choices[g] or ''}", f"{SEVERAL[g]} {_there(g)}") for g in shown.several]
    for name, kind in shown.nested.items():
        about = " ".join(filter(None, (_first_line(kind), _there(name))))
        every = (kind, *kinds(kind).values())
        keys = ", ".join(dict.fromkeys(e.name for one in every for e in dataclasses.fields(one)))
        choice = f"={shown.choices.get(name) or ''}" if name in shown.choices else ".<key>"
        rows.append((f"{name}{choice}", f"{about} Keys: {keys}."))
    return rows


def _there(group: str) -> str:
    """Format the options of a config group, or some of many."""
    names = options(group)
    if len(names) > MANY:
        return f"{len(names)} of them, such as {', '.join(names[-4:])}."
    return f"One of: {', '.join(names)}." if names else ""


def _option_rows(group: str) -> list[tuple[str, str]]:
    """Make a row per choice of a config group, as its file's first comment or its class says."""
    known = kinds_of(group)
    return [
        (f"{group}={name}", _first_comment(f"{group}/{name}") or _first_line(known.get(name)))
        for name in options(group)
    ]


def _first_comment(config: str) -> str:
    """Return the first comment of a packaged configuration, empty where there is none."""
    file = files(CONFIGS) / f"{config}.yaml"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    said = [x.removeprefix("# ") for x in lines if x.startswith("# ") and "@package" not in x]
    return said[0] if said else ""


def _key_rows(shown: _Shown, group: str = "") -> list[tuple[str, str]]:
    """Make a row per key of a group and of its groups, or of the command itself."""
    if group in shown.several:
        return []
    if group:
        kind, values = shown.nested[group], shown.values[group]
        if not (known := kinds(kind)):
            return _rows(kind, values, f"{group}.")
        rows = [row for one in known.values() for row in _rows(one, _defaults(one), f"{group}.")]
        return [(f"  {group}.name={_shown(values['name'])}", rows[0][1])] + [
            row for row in rows if not row[0].startswith(f"  {group}.name=")
        ]
    return _rows(shown.schema, shown.values)


def _rows(schema: type[Any], values: Any, prefix: str = "") -> list[tuple[str, str]]:
    types, meanings, rows = typing.get_type_hints(schema), comments(schema), []
    annotated = typing.get_type_hints(schema, include_extras=True)
    for entry in dataclasses.fields(schema):
        kind, key, meaning = types[entry.name], prefix + entry.name, meanings.get(entry.name, "")
        if not dataclasses.is_dataclass(kind):
            if isinstance(kind, type) and issubclass(kind, Enum):
                meaning = f"{', '.join(kind.__members__)}. {meaning}".strip()
            if limit := str(limit_of(annotated[entry.name])):
                meaning = f"{meaning} ({limit})".strip()
            rows.append((f"{'  ' if prefix else ''}{key}={_shown(values[entry.name])}", meaning))
        elif prefix:
            assert isinstance(kind, type)
            rows.append((f"  {key}", _first_line(kind)))
            rows += _rows(kind, values[entry.name], f"{key}.")
    return rows


def _defaults(schema: type[Any]) -> dict[str, Any]:
    from omegaconf import OmegaConf

    values = OmegaConf.to_container(OmegaConf.structured(schema))
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def _table(rows: list[tuple[str, str]]) -> str:
    """Format two columns, the right one wrapped."""
    indent = max(len(left) for left, _ in rows if len(left) <= WIDEST) + 4
    return "\n".join(_wrapped(f"  {left}", right, indent) for left, right in rows)


def _first_line(schema: type[Any] | None) -> str:
    """Return the first line of a dataclass's docstring; empty for none."""
    return _null((getattr(schema, "__doc__", None) or "").partition("\n")[0])


def _null(text: str) -> str:
    """Write None as YAML and the command line do."""
    return re.sub(r"\bNone\b", "null", text)


def _wrapped(left: str, right: str, indent: int) -> str:
    """Format a row, wrapped to the terminal; a very long left part gets its own line."""
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
