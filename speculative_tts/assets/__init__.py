"""The files that ship with the package: tiny models, codec, test list, voice prompts, configs."""

from importlib import resources
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent
PREFIX = "tiny:"


def resolve(path: str) -> Path:
    """The place of `path`: below the shipped tiny assets for `tiny:target`, else the path as it is.

    Raises ValueError when nothing is there, naming what is shipped or where it was looked for.
    """
    packaged = path.startswith(PREFIX)
    place = ROOT / "tiny" / path.removeprefix(PREFIX) if packaged else Path(path)
    if place.exists():
        return place
    if not packaged:
        raise ValueError(
            f"{path} does not exist{'' if place.is_absolute() else f' in {Path.cwd()}'}; give a "
            "path that does (docs/paper-scale.md: where the papers' models come from and go)"
        )
    shipped = sorted(PREFIX + entry.name for entry in (ROOT / "tiny").glob("*"))
    raise ValueError(f"{path} is not shipped; give an existing path or one of {', '.join(shipped)}")


def configuration(name: str) -> dict[str, Any]:
    """What a shipped file of settings, `judges/pcg`, says by itself."""
    file = resources.files("speculative_tts.configs").joinpath(f"{name}.yaml")
    return dict(yaml.safe_load(file.read_text(encoding="utf-8")) or {})


def configurations(group: str) -> list[str]:
    """Names of the shipped files of a group, in order."""
    folder = resources.files("speculative_tts.configs").joinpath(group)
    files = folder.iterdir() if folder.is_dir() else ()
    return sorted(f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml"))
