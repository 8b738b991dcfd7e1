"""The files that ship with the package: tiny models, codec, test list, voice prompts, configs."""

from importlib import resources
from pathlib import Path
from typing import Any

import yaml

TINY = Path(__file__).parent / "tiny"
PREFIX = "tiny:"
ORIGINS = {  # where the packaged configurations look: how that comes to be there
    "models": "docs/paper-scale.md: where the papers' models come from and go",
    "data": "sst-prepare makes what is in data/: sst-prepare --help",
}


class MissingPathError(ValueError):
    """What was to be read is not there."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(why)
        self.path = path


def resolve(path: str) -> Path:
    """The place of `path`: below the shipped tiny assets for `tiny:target`, else the path as it is.

    Something need not be there: `require` says so where it is read.
    """
    return TINY / path.removeprefix(PREFIX) if path.startswith(PREFIX) else Path(path)


def named(path: str) -> str:
    """What `resolve` made a place of: `tiny:target` on every machine; another path as it is."""
    inside = path.startswith(f"{TINY}/")
    return PREFIX + path.removeprefix(f"{TINY}/") if inside else path


def require(path: Path) -> Path:
    """The path of what will be read; MissingPathError, with what could be given, if it is not."""
    if path.exists():
        return path
    if (name := named(str(path))).startswith(PREFIX):
        shipped = sorted(PREFIX + entry.name for entry in TINY.glob("*"))
        alike = [one for one in shipped if one.endswith(name[name.rfind("_") :])] or shipped
        raise MissingPathError(
            path, f"{name} is not shipped; give an existing path or one of {', '.join(alike)}"
        )
    origin = ORIGINS.get(path.parts[0] if path.parts else "")
    raise MissingPathError(
        path,
        f"{path} does not exist{'' if path.is_absolute() else f' in {Path.cwd()}'}; give a path "
        f"that does{f' ({origin})' if origin else ''}",
    )


def configuration(name: str) -> dict[str, Any]:
    """What a shipped file of settings, `judges/pcg`, says by itself."""
    file = resources.files("speculative_tts.configs").joinpath(f"{name}.yaml")
    return dict(yaml.safe_load(file.read_text(encoding="utf-8")) or {})


def configurations(group: str) -> list[str]:
    """Names of the shipped files of a group, in order."""
    folder = resources.files("speculative_tts.configs").joinpath(group)
    files = folder.iterdir() if folder.is_dir() else ()
    return sorted(f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml"))
