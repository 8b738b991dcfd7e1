"""Check the ids of a list: each names a file, shows what it is, and stands there once."""

import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

FILE_NAME = re.compile(r"(?!\.)[^/\\\x00-\x1f]{1,200}")
LONGEST_NAME = 200  # bytes
FORMULA = "=+@"  # what a cell of a table begins with that a spreadsheet computes


def check_names(path: Path, ids: Iterable[str]) -> None:
    """Raise ValueError for ids that cannot each name a file of one folder, on any disk.

    Some disks ignore case and how accents are composed: there one file would replace another.
    """
    ids = list(ids)
    for key in ids:
        if not FILE_NAME.fullmatch(key) or len(key.encode()) > LONGEST_NAME:
            raise ValueError(
                f"{path}: id {key!r} cannot name a file; use 1 to 200 letters, digits, - and _"
            )
    check_ids(path, ids)


def check_ids(
    path: Path, ids: Iterable[str], of: str = "", remedy: str = "give each row its own"
) -> None:
    """Raise ValueError for an odd id (`check_id`), and for two that look or are filed alike."""
    seen: dict[str, str] = {}
    for key in ids:
        check_id(path, key)
        folded = unicodedata.normalize("NFC", key.casefold())
        if folded in seen:
            alike = "" if seen[folded] == key else f", as {seen[folded]}, on disks that ignore case"
            raise ValueError(f"{path}: id {key}{of} is there twice{alike}; {remedy}")
        seen[folded] = key


def check_id(path: Path, key: str, what: str = "id") -> None:
    """Raise ValueError for an id that is empty, invisible in part, or computed by spreadsheets."""
    if not key or not key.isprintable() or key != key.strip():
        raise ValueError(
            f"{path}: {what} {key!r} is empty or holds characters that nobody sees; "
            "use letters, digits, - and _"
        )
    if key[0] in FORMULA:
        raise ValueError(
            f"{path}: {what} {key!r} begins with {key[0]}, so that a spreadsheet computes it; "
            "begin with a letter or a digit"
        )
