"""Give Hydra the schemas of commands and of the kinds of their groups, as a source of its own.

Hydra copies its store of schemas at every composition, which took a fifth of composing; a source is
copied in no time and hands out the few schemas that a command asks for.
"""

from copy import deepcopy
from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf

_known: dict[str, Any] = {}  # by group/name; a command's own by its name alone
_made: dict[str, DictConfig] = {}
_changes = 0


def add(path: str, schema: Any) -> None:
    """Let Hydra find a schema, a dataclass or an object of one, at a path: rule/exact_schema."""
    global _changes  # noqa: PLW0603 - a count of what Hydra may find otherwise than before
    if _known.get(path) != schema:
        _changes += path in _known
        _known[path] = schema
        _made.pop(path, None)


def version() -> int:
    """Return a number that changes when a path gets another schema than it had."""
    return _changes


def groups() -> set[str]:
    """Return the groups that have a schema."""
    return {path.rpartition("/")[0] for path in _known if "/" in path}


class Schemas(ConfigSource):
    """The schemas that were added, as files of a folder would be.

    Pickled with them: submitit's jobs compose in processes that no command has begun.
    """

    def __deepcopy__(self, _: dict[int, Any]) -> "Schemas":
        return Schemas(self.provider, self.full_path())

    def __getstate__(self) -> dict[str, Any]:
        return {"own": self.__dict__, "known": _known}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state["own"])
        for path, schema in state["known"].items():
            add(path, schema)

    @staticmethod
    def scheme() -> str:
        """Return what a search path calls this source by."""
        return "schemas"

    def load_config(self, config_path: str) -> ConfigResult:
        """Return a copy of a schema's configuration."""
        path = config_path.removesuffix(".yaml")
        if path not in _known:
            raise ConfigLoadError(f"no schema {path}")
        if path not in _made:
            _made[path] = OmegaConf.structured(_known[path])
        made = deepcopy(_made[path])
        return ConfigResult(self.provider, self.full_path(), made, header={"package": None})

    def is_group(self, config_path: str) -> bool:
        """Return True for a group that has a schema."""
        return any(path.startswith(f"{config_path.rstrip('/')}/") for path in _known)

    def is_config(self, config_path: str) -> bool:
        """Return True for a schema's path."""
        return config_path.removesuffix(".yaml") in _known

    def available(self) -> bool:
        """Return True: nothing has to be there."""
        return True

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Return the names of a group's schemas."""
        group = f"{config_path.rstrip('/')}/".removeprefix("/")
        inside = {path.removeprefix(group) for path in _known if path.startswith(group)}
        wanted = inside if results_filter is not ObjectType.GROUP else set()
        return sorted(name for name in wanted if "/" not in name)


class SearchSchemas(SearchPathPlugin):
    """Let every composition look for schemas after packaged files."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the source of schemas."""
        search_path.append("speculative_tts", f"{Schemas.scheme()}://")


Plugins.instance().register(Schemas)
Plugins.instance().register(SearchSchemas)
