"""Store arrays in folders named by a hash of the description they were made from.

A folder holds a .npy file per array and manifest.json: the description (whose hash is the key), the
SHA-256 of every file, facts for people, and the hash of all that. It is written beside its place
and renamed into it, so a kill leaves no half of one, and of two processes that make the same one
wins. Everything is checked when it is opened; arrays are memory-mapped.
"""

import errno
import hashlib
import json
import logging
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speculative_tts.files import check_folder, file_hash, running, text_hash, write_atomic, writing
from speculative_tts.texts import some
from speculative_tts.typed import json_text

FORMAT = 2
MANIFEST = "manifest.json"
SETTINGS = {  # by kind, where sst-decode is told its folder; cache= else
    "groups": "rule.groups.cache",
    "mel": "rule.groups.cache",
    "transitions": "viterbi.transitions.cache",
}
Arrays = Mapping[str, NDArray[Any]]
Description = Mapping[str, Any]  # JSON values
logger = logging.getLogger("speculative_tts.caches")


class DamagedError(ValueError):
    """Raised for a cache folder without a manifest, or that differs from it."""


@dataclass(frozen=True)
class Entry:
    """One opened cache: memory-mapped arrays, their description, and facts about them."""

    folder: Path
    kind: str
    arrays: dict[str, NDArray[Any]]
    description: dict[str, Any]
    facts: dict[str, Any]

    @property
    def bytes(self) -> int:
        """Size of all arrays in bytes."""
        return sum(array.nbytes for array in self.arrays.values())


def key_of(description: Description) -> str:
    """Return the hash of a description, 64 hex digits."""
    return text_hash(json_text(description, sort_keys=True))


def folder_of(root: Path, kind: str, description: Description) -> Path:
    """Return the folder of the cache with this description."""
    return root / f"{kind}-{key_of(description)[:16]}"


def open_entry(folder: Path) -> Entry:
    """Open a cache; raise DamagedError for a broken one, FileNotFoundError where there is none."""
    manifest = _manifest(folder)
    arrays = {}
    for name, expected in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            raise DamagedError(f"{path} is missing")
        digest = file_hash(path)
        if digest != expected["sha256"]:
            raise DamagedError(
                f"{path} is damaged (sha256 {digest[:12]}, not {expected['sha256'][:12]})"
            )
        # Copy-on-write: torch accepts writable memory only, and the file must not change.
        arrays[path.stem] = np.load(path, mmap_mode="c")
    return Entry(folder, manifest["kind"], arrays, manifest["description"], manifest["facts"])


def save_entry(
    root: Path, kind: str, description: Description, arrays: Arrays, facts: Mapping[str, Any]
) -> Path:
    """Write a cache and return its folder; an existing whole one stays, else it is replaced."""
    place = folder_of(root, kind, description)
    root.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(root, place.name)
    temporary = Path(tempfile.mkdtemp(prefix=f"{_mark(place.name)}{os.getpid()}.", dir=root))
    try:
        files = {}
        for name, array in arrays.items():
            path = temporary / f"{name}.npy"
            with writing(path) as file:
                np.save(file, array)
            files[path.name] = {"sha256": file_hash(path), "bytes": array.nbytes}
        content = {
            "format": FORMAT,
            "kind": kind,
            "description": dict(description),
            "files": files,
            "facts": dict(facts),
        }
        content = json.loads(json_text(content))  # in the form in which it will be read
        text = json_text(content | {"sha256": key_of(content)}, indent=2)
        write_atomic(temporary / MANIFEST, text + "\n")
        temporary.chmod(0o755)  # mkdtemp's is private
        _move(temporary, place, description)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return place


def find_or_make(
    root: Path,
    kind: str,
    description: Description,
    make: Callable[[], tuple[Arrays, Mapping[str, Any]]],
) -> Entry:
    """Open the cache with this description, or let `make` return its (arrays, facts) and store it.

    Raise ValueError, before anything is made, for a folder that cannot be written.
    """
    place = folder_of(root, kind, description)
    try:
        return open_checked(place, description)
    except FileNotFoundError:
        pass
    except DamagedError as error:
        logger.warning("%s; making it again", error)
    try:
        check_folder(root)
    except OSError as error:
        raise ValueError(
            f"cache folder {root} is not writable ({(error.strerror or str(error)).lower()}); give "
            f"another, {SETTINGS.get(kind, 'cache')}=<path>"
        ) from error
    return open_entry(save_entry(root, kind, description, *make()))


def open_named(folder: Path, kind: str, names: Collection[str]) -> Entry:
    """Open the cache folder that a user named, with arrays of these names.

    Raise ValueError describing the folder when it is damaged or no such cache.
    """
    remedy = f"make {kind} with sst-precompute cache={kind}"
    try:
        entry = open_entry(folder)
    except DamagedError as error:
        if (folder / MANIFEST).is_file():
            raise ValueError(f"{error}; {remedy}") from error
        held = some(sorted(path.name for path in folder.iterdir())) or "nothing"
        raise ValueError(f"{folder} is no cache, it has {held}; {remedy}") from error
    if entry.kind != kind or not set(names) <= entry.arrays.keys():
        raise ValueError(
            f"{folder} holds {entry.kind} ({', '.join(sorted(entry.arrays))}), and {kind} are "
            f"{', '.join(names)}; {remedy}"
        )
    return entry


def shorten(value: object) -> str:
    """Return a value of a description for a message: 12 digits of a hash, others as text."""
    return value[:12] if isinstance(value, str) else str(value)


def array_hash(arrays: Iterable[NDArray[Any]]) -> str:
    """Return the SHA-256 of shapes, types and values of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def open_checked(place: Path, description: Description) -> Entry:
    """Open the cache in its place; raise DamagedError for one of another description."""
    entry = open_entry(place)
    if key_of(entry.description) != key_of(description):
        raise DamagedError(f"{place} was made from something else")
    return entry


def _move(folder: Path, place: Path, description: Description) -> None:
    """Rename to the place of a damaged or absent cache; another process's whole one stays."""
    for _ in range(2):
        try:
            folder.rename(place)
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise
        else:
            return
        try:
            open_checked(place, description)
        except (FileNotFoundError, DamagedError):
            shutil.rmtree(place, ignore_errors=True)
        else:
            return


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not folder.is_dir():
        raise FileNotFoundError(2, "no such cache folder", str(folder))
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        known, digest = content["format"] == FORMAT, content.pop("sha256", None)
    except FileNotFoundError:
        raise DamagedError(f"{path} is missing") from None
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"{path} is damaged ({error!r})") from error
    if not known:
        raise DamagedError(f"{path} has another format than this version's {FORMAT}")
    if key_of(content) != digest:
        raise DamagedError(f"{path} is damaged (its sha256 is not that of its content)")
    return content


def _remove_leftovers(root: Path, name: str) -> None:
    """Remove the folders of this machine's processes that were killed while writing this cache."""
    for folder in root.glob(f"{_mark(name)}*"):
        process = folder.name.removeprefix(_mark(name)).partition(".")[0]
        if process.isdigit() and not running(int(process)):
            shutil.rmtree(folder, ignore_errors=True)


def _mark(name: str) -> str:
    """Return the name prefix of folders in which this machine's processes write this cache."""
    return f".{name}.{platform.node()}."
