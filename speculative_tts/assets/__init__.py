"""The files that ship with the package: tiny models, codec, test list and voice prompts."""

from pathlib import Path

ROOT = Path(__file__).parent
PREFIX = "tiny:"


def resolve(path: str) -> Path:
    """The place of `path`: below the shipped tiny assets for `tiny:target`, else the path as it is.

    Raises ValueError, naming what exists, when nothing is there.
    """
    packaged = path.startswith(PREFIX)
    place = ROOT / "tiny" / path.removeprefix(PREFIX) if packaged else Path(path)
    if place.exists():
        return place
    shipped = sorted(PREFIX + entry.name for entry in (ROOT / "tiny").glob("*"))
    where = "is not shipped" if packaged else "does not exist"
    raise ValueError(f"{path} {where}; give an existing path or one of {', '.join(shipped)}")
