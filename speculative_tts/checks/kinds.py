"""Say which targets the golden files of a folder are of, by its files and what they say."""

from pathlib import Path

from speculative_tts.assets import configuration
from speculative_tts.checks.compare import Entries, read_object
from speculative_tts.checks.registry import CHECKS, FormatError

ONLY = {  # by target, a file that golden folders of no other check have
    "cosyvoice2": "cases.json",
    "llasa": "layout.json",
    "snac": "snac.npz",
    "speechtokenizer": "speechtokenizer.npz",
    "viterbi": "viterbi.npz",
}
CLASSES = {"USLM": "uslm", "VALLE": "valle"}  # by the official class that info.json names
ROWS = tuple(one for one, module in CHECKS.items() if module == CHECKS["orpheus"])


def require_kind(folder: Path, target: str) -> None:
    """Raise FormatError, which names the right target, for golden files of other targets alone.

    A folder without any known file passes: the check itself names the file that it wants.
    """
    found = targets_of(folder)
    if found and target not in found:
        right = " or ".join(f"target={one}" for one in found)
        raise FormatError(
            f"{folder} holds golden files of {' or '.join(found)}, not of {target}; give {right}, "
            f"or golden=<folder> of {target}"
        )


def targets_of(folder: Path) -> list[str]:
    """Return the targets whose golden files a folder holds; empty if it holds none that is known.

    They are several where files do not say which of them they are of.
    """
    found = [target for target, file in ONLY.items() if (folder / file).is_file()]
    if (folder / "golden.json").is_file():
        about = read_object(folder / "golden.json")
        rows = about.get("rows")
        found += _of_rows(rows) if isinstance(rows, Entries) else ["csm"] if rows is None else ROWS
    if (folder / "main.npz").is_file():
        info = folder / "info.json"
        said = str(read_object(info).get("class")) if info.is_file() else ""
        found += [CLASSES[said]] if said in CLASSES else CLASSES.values()
    return found


def _of_rows(rows: Entries) -> list[str]:
    """Return the targets that write prompts so, else those that write codes so, else all."""
    shipped = {target: configuration(f"target/{target}")["rows"] for target in ROWS}
    for key in ("user", "code"):
        alike = [one for one, own in shipped.items() if key in own and own[key] == rows.get(key)]
        if alike:
            return alike
    return list(ROWS)
