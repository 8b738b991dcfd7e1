"""Find codecs and samplers of other packages, which announce them as entry points.

A package names them in its own pyproject.toml:

    [project.entry-points."speculative_tts.codecs"]
    mine = "my_package:MyCodec.load"
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

GROUPS = {"codec": "speculative_tts.codecs", "sampler": "speculative_tts.samplers"}


def announced(kind: str) -> dict[str, EntryPoint]:
    """Return what installed packages offer of a kind, by name; of equal names the first."""
    return {one.name: one for one in reversed(entry_points(group=GROUPS[kind]))}


def find(kind: str, name: str, ours: tuple[str, ...] = ()) -> Any:
    """Load what is announced under this name.

    Raises ValueError for a name that nobody announces (`ours` are the package's own, for the
    message), and for a package that cannot be imported.
    """
    there = announced(kind)
    if name not in there:
        known = ", ".join(sorted({*ours, *there})) or "none"
        raise ValueError(
            f"{kind} {name!r} is unknown; known here: {known}. Give one of them, or install a "
            f"package with an entry point {name!r} in the group {GROUPS[kind]}"
        )
    try:
        return there[name].load()
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"{kind} {name!r} is announced as {there[name].value}, which does not load ({error}); "
            "mend or reinstall that package"
        ) from error
