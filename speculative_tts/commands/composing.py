"""Compose a command's configurations by Hydra's public API, and make objects of them.

One, or one per point of a sweep. Their paths get real places.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from omegaconf import OmegaConf, open_dict

from speculative_tts.assets import MissingPathError, resolve
from speculative_tts.commands.arguments import at_home, quote
from speculative_tts.schema.common import Cluster, ClusterConfig
from speculative_tts.schema.fields import Holds, check, given
from speculative_tts.schema.kinds import kinds_in, own_keys

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override
    from omegaconf import DictConfig

CONFIGS = "speculative_tts.configs"
Config = TypeVar("Config")
_composed: dict[tuple[object, ...], "DictConfig"] = {}  # of choices alone, by command and choices


@dataclass(frozen=True)
class Described(Generic[Config]):
    """A command without what it does: how it is composed, and what `--help` shows of it."""

    name: str  # also of its configuration
    schema: type[Config]
    about: str
    examples: tuple[str, ...]  # lines to copy
    first: tuple[str, ...]  # keys that matter most
    shorthand: tuple[tuple[str, str], ...]  # short keys and words, and what they stand for

    @property
    def program(self) -> str:
        """The name that a user types."""
        return "sst-" + self.name.replace("_", "-")


@dataclass(frozen=True)
class SweepPoint:
    """One point of a sweep: its number from 0, its overrides, and the composed configuration."""

    number: int
    overrides: tuple[str, ...]
    config: "DictConfig"

    def __str__(self) -> str:
        """Show the overrides of the command itself, without those of Hydra's node."""
        return " ".join(one for one in self.overrides if not one.lstrip("+~").startswith("hydra"))


@dataclass(frozen=True)
class Composed:
    """All points that a command line asks for, and Hydra's node of the first one."""

    points: list[SweepPoint]
    is_sweep: bool
    hydra: "DictConfig"

    @property
    def launcher(self) -> str:
        """The chosen launcher; `basic` runs the points one after the other in this process."""
        return str(self.hydra.runtime.choices["hydra/launcher"])


def register(name: str, schema: type[Any]) -> None:
    """Make a command's schema, the kinds of its groups and the Ray launcher known to Hydra."""
    from speculative_tts.commands import schema_source

    schema_source.add(f"{name}_schema", schema)
    for group, known in kinds_in(schema).items():
        for kind, node in known.items():
            schema_source.add(f"{group}/{kind}_schema", node)
            if not (files(CONFIGS) / group / f"{kind}.yaml").is_file():
                schema_source.add(f"{group}/{kind}", node)
    schema_source.add("hydra/launcher/ray", ClusterConfig(name=Cluster.ray))


def compose_one(name: str, overrides: Sequence[str]) -> "DictConfig":
    """Compose the configuration of overrides that sweep over nothing; ignore a file's own sweep."""
    from hydra import initialize_config_module

    with initialize_config_module(CONFIGS, version_base="1.3"):
        return _compose(name, overrides)


def compose_points(
    name: str, overrides: Sequence[str], folder: str | None = None, *, sweep: bool = False
) -> Composed:
    """Compose every point of `overrides` before any runs, so that a mistake in one stops them all.

    `folder` has configurations of the user. It is a sweep if a key has several values, if a file
    such as an experiment asks for one (hydra.sweeper.params), or if `sweep` says so. The override
    hydra.mode=RUN ignores a file's sweep.
    """
    from hydra import compose, initialize_config_module
    from hydra.types import RunMode

    search = [_search_path(folder)] if folder else []
    with initialize_config_module(CONFIGS, version_base="1.3"):

        def composed(point: Sequence[str]) -> "DictConfig":
            if search:
                return compose(name, [*point, *search], return_hydra_config=True)
            return _compose(name, point)

        axes = _axes(overrides)
        point = tuple(values[0] for values in axes.values())
        first = composed(point)
        hydra = first.hydra
        sweep = sweep or len(axes) < sum(map(len, axes.values())) or hydra.mode == RunMode.MULTIRUN
        if sweep and hydra.mode != RunMode.RUN:
            params = [f"{key}={value}" for key, value in (hydra.sweeper.params or {}).items()]
            axes = {**_axes(params), **axes}
        points = [
            SweepPoint(number, one, first if one == point else composed(one))
            for number, one in enumerate(product(*axes.values()))
        ]
    return Composed(points, sweep, hydra)


def _compose(name: str, overrides: Sequence[str]) -> "DictConfig":
    """Return what Hydra composes of packaged files, which it reads once for the same choices.

    Choices decide which of some twenty files are merged; that takes many times as long as to set
    values in a copy. Hydra's node of the copy says nothing of these values. What is no plain choice
    or value, and values that do not fit, are left to Hydra, which raises its own errors.
    """
    from hydra import compose
    from omegaconf.errors import OmegaConfBaseException

    from speculative_tts.commands import schema_source

    parsed = _parsed(overrides)
    groups = _folders() | schema_source.groups()
    values = [one for one in parsed if not _chooses(one, groups)]
    choices = [str(one.input_line) for one in parsed if _chooses(one, groups)]
    if not all(map(_is_plain, parsed)):
        return compose(name, [*overrides], return_hydra_config=True)
    key = (schema_source.version(), name, *choices)
    if key not in _composed:
        _composed[key] = compose(name, choices, return_hydra_config=True)
    config = deepcopy(_composed[key])
    try:
        for one in values:
            OmegaConf.update(config, one.key_or_group, one.value())
    except OmegaConfBaseException:
        return compose(name, [*overrides], return_hydra_config=True)
    return config


def _chooses(override: "Override", groups: set[str]) -> bool:
    """Return whether an override chooses files, or is about Hydra's own node."""
    key = override.key_or_group
    return key in groups or "/" in key or override.is_hydra_override()


def _is_plain(override: "Override") -> bool:
    """Return whether an override neither adds nor removes anything, nor has several values."""
    from hydra.core.override_parser.types import OverrideType

    changes = override.type is OverrideType.CHANGE and override.package is None
    return changes and not override.is_sweep_override() and not isinstance(override.value(), dict)


@cache
def _folders() -> set[str]:
    """Return the groups that are folders of packaged files."""
    return {place.name for place in files(CONFIGS).iterdir() if place.is_dir()}


def _parsed(overrides: Sequence[str]) -> list["Override"]:
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parser = OverridesParser.create(GlobalHydra.instance().config_loader())
    return parser.parse_overrides([*overrides])


def _axes(overrides: Sequence[str]) -> dict[str, list[str]]:
    """Return the overrides of each key, one per value; of a key that is given twice, the last.

    Raises ValueError for a sweep without a value, such as `a=range(1,0)`.
    """
    axes = {}
    for one in _parsed(overrides):
        key, values = one.get_key_element(), [str(one.input_line)]
        if one.is_sweep_override():
            swept = one.sweep_string_iterator()  # a glob finds the schemas of kinds too
            values = [f"{key}={value}" for value in swept if not str(value).endswith("_schema")]
        if not values:
            raise ValueError(f"{one.input_line} has no value; give at least one")
        axes[key] = values
    return axes


def _search_path(folder: str) -> str:
    place = Path(folder).expanduser().absolute()
    if not place.is_dir():
        raise ValueError(
            f"--config-dir={folder}: folder {place} not found; give one that is laid out like the "
            "package's configs"
        )
    return f"hydra.searchpath=[{quote(f'file://{place}')}]"


def to_object(config: "DictConfig", command: Described[Config]) -> Config:
    """Turn a composed configuration into the schema's dataclass, with paths at their real places.

    A path to read may be a shipped file, `tiny:target`. Raises ValueError for an unknown key, for a
    value that is missing, empty or beyond its limit, and for the name of a kind that was changed.
    """
    schema = command.schema
    with open_dict(config):
        config.pop("hydra", None)
        for key in own_keys(schema) - config.keys():  # ~key deleted it
            config[key] = OmegaConf.structured(schema)[key]
    for key in sorted(OmegaConf.missing_keys(config)):
        words = [word for word, meant in command.shorthand if meant.startswith(f"{key}=")]
        give = f"one of {', '.join(words)}" if words else f"{key}=<value>"
        raise ValueError(f"{key} is not set; give {give} (see {command.program} --help)")
    for group, known in kinds_in(schema).items():
        name, kind = config[group].name, OmegaConf.get_type(config[group])
        if known.get(name) is not kind:
            (chosen,) = (one for one in known if known[one] is kind)
            raise ValueError(
                f"{group}.name={name} renames {group}={chosen}; "
                f"give {group}=<one of {', '.join(known)}>"
            )
    result = OmegaConf.to_object(config)
    assert isinstance(result, schema)
    check(result)
    for one in [one for one in given(result) if one.path]:
        if not one.value:
            raise ValueError(f"{one.key} is empty; give a path")
        place = at_home(one.value)
        setattr(one.config, one.name, str(resolve(place)) if one.path is Holds.read else place)
    return result


def sources(config: object) -> list[Path]:
    """Return the paths that a configuration reads; ValueError if one would also be written."""
    ends = [one for one in given(config) if one.path in (Holds.read, Holds.written)]
    there = [one for one in ends if Path(one.value).exists()]
    read = [one for one in there if one.path is Holds.read]
    for out, one in product((one for one in there if one.path is Holds.written), read):
        if Path(one.value).samefile(out.value):
            raise ValueError(
                f"{out.key}={out.value} is what {one.key} reads; give another {out.key}"
            )
    return [Path(one.value) for one in read]


def name_key(error: Exception, config: object) -> None:
    """Add the key that gave a missing path to the error's message."""
    if isinstance(error, MissingPathError):
        read = (one for one in given(config) if one.path is Holds.read)
        keys = [one.key for one in read if one.value == str(error.path)]
        error.args = (": ".join([*keys[:1], str(error)]),)


@contextmanager
def typed_as(arguments: Sequence[str]) -> Iterator[None]:
    """Set sys.argv, which Hydra's main and provenance read; let Hydra raise its errors."""
    before, full_error = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv, os.environ["HYDRA_FULL_ERROR"] = [*arguments], "1"
    try:
        yield
    finally:
        sys.argv = before
        if full_error is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = full_error
