"""Locate the files that ship with the package: tiny models, codec, test list, voices, configs."""

import difflib
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from speculative_tts.schema.drafters import DrafterConfig
from speculative_tts.schema.kinds import kinds
from speculative_tts.schema.rules import RuleConfig

TINY = Path(__file__).parent / "tiny"
PREFIX = "tiny:"
ORIGINS = {  # folders that the packaged configurations name: how to fill them
    "models": "docs/paper-scale.md: where the papers' models come from and go",
    "data": "sst-prepare makes what is in data/: sst-prepare --help",
}


class MissingPathError(ValueError):
    """Raised for an input path that does not exist."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(why)
        self.path = path


def resolve(path: str) -> Path:
    """Return the place of a path: `tiny:target` is among the shipped assets, others are unchanged.

    It need not exist: `require` checks that where it is read.
    """
    return TINY / path.removeprefix(PREFIX) if path.startswith(PREFIX) else Path(path)


def named(path: str) -> str:
    """Undo `resolve`: return `tiny:target` for a shipped asset, any other path unchanged."""
    inside = path.startswith(f"{TINY}/")
    return PREFIX + path.removeprefix(f"{TINY}/") if inside else path


def require(path: Path) -> Path:
    """Return an input path; raise MissingPathError, naming alternatives, if it does not exist."""
    if path.exists():
        return path
    if (name := named(str(path))).startswith(PREFIX):
        shipped = sorted(PREFIX + entry.name for entry in TINY.glob("*"))
        base, _, kind = name.rpartition("_")
        near = difflib.get_close_matches(name, shipped, cutoff=0.9)
        alike = near or [one for one in shipped if base and one.endswith(f"_{kind}")]
        alike = alike or [one for one in shipped if base not in shipped]  # none of that kind ships
        more = f" or one of {', '.join(alike)}" if alike else ""
        raise MissingPathError(path, f"{name} is not shipped; give an existing path{more}")
    origin = ORIGINS.get(path.parts[0] if path.parts else "")
    raise MissingPathError(
        path,
        f"{path} does not exist{'' if path.is_absolute() else f' in {Path.cwd()}'}; give a path "
        f"that does{f' ({origin})' if origin else ''}",
    )


def configuration(name: str) -> dict[str, Any]:
    """Read a shipped configuration, such as `judges/pcg`, without composing it.

    A kind of rule or drafter that needs no file says its name alone.
    """
    group, _, choice = name.rpartition("/")
    file = resources.files("speculative_tts.configs").joinpath(f"{name}.yaml")
    if choice in kinds_of(group) and not file.is_file():
        return {"name": choice}
    return dict(yaml.safe_load(file.read_text(encoding="utf-8")) or {})


def configurations(group: str) -> list[str]:
    """Return the names of a group's shipped configurations, sorted."""
    folder = resources.files("speculative_tts.configs").joinpath(group)
    files = [file.name for file in folder.iterdir()] if folder.is_dir() else []
    named = (name.removesuffix(".yaml") for name in files if name.endswith(".yaml"))
    return sorted({*named, *kinds_of(group)})


def kinds_of(group: str) -> dict[str, type[Any]]:
    """Return the classes of a group's choices by name: of rules and drafters; else empty."""
    bases = (base for base in (RuleConfig, DrafterConfig) if base.group == group)
    return {name: kind for base in bases for name, kind in kinds(base).items()}
