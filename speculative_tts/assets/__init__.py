"""The files that ship with the package: tiny models, codec, test list and voice prompts."""

from pathlib import Path

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
