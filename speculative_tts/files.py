"""Write files whole or not at all, and never over an input; lock folders; hash files.

All files of this package are made by `writing`. It follows symlinks, writes directly to devices and
pipes, removes the rest of a failed write (the next writer does, if this one was killed), and its
error names the file, the reason and the remedy.
"""

import ctypes
import errno
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from io import RawIOBase
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

DEVICES = (Path("/dev"), Path("/dev/fd"))  # /dev/stdout may lead to a file that a shell holds open
REMEDY = {
    errno.ENOSPC: "free some space, or give another place",
    errno.EDQUOT: "free some space, or give another place",
    errno.EFBIG: "raise the limit of file sizes, or give another place",
    errno.EISDIR: "give the name of a file",
    errno.ENAMETOOLONG: "give a shorter name",
}
ELSEWHERE = "give a place where you may write"
MACHINE = os.uname().nodename[:40]  # folders are shared between machines, process ids are not

_read: ContextVar[tuple[Path, ...]] = ContextVar("_read", default=())
_patient: ContextVar[bool] = ContextVar("_patient", default=False)


class OutputError(ValueError):
    """Raised for a file that cannot be written; the message names it, the reason and the remedy."""


@contextmanager
def reading(paths: Iterable[Path]) -> Iterator[None]:
    """Protect inputs: inside the block `writing` refuses to replace any of these files."""
    token = _read.set((*_read.get(), *paths))
    try:
        yield
    finally:
        _read.reset(token)


@contextmanager
def writing(path: Path, *, synced: bool = True) -> Iterator[BinaryIO]:
    """Open a binary file that becomes `path` when the block ends; a failure changes nothing.

    Missing folders are made. Raise OutputError where the file cannot be written. Unless `synced`
    (an fsync, 10 ms on a disk) a power failure may take the file until `sync` is called.
    """
    with naming_errors(path):
        _refuse(path)
        if _written_through(path):
            with tempfile.TemporaryFile() as whole:
                yield whole
                whole.seek(0)
                with path.open("wb", buffering=0) as device:
                    write_all(device, whole.read())
        else:
            with _beside(Path(os.path.realpath(path)), synced) as file:
                yield file


def write_atomic(path: Path, data: str | bytes, *, synced: bool = True) -> None:
    """Write `data` to `path` so that a reader sees the old file or the new one, never a part."""
    with writing(path, synced=synced) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def sync(folder: Path) -> None:
    """Wait until everything written to the file system of `folder` outlasts a power failure.

    It replaces one fsync per file by one wait for many. A killed process's writes survive anyway.
    """
    syncfs = getattr(ctypes.CDLL(None), "syncfs", None)  # only on Linux
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if syncfs is None or syncfs(descriptor):
            os.sync()
    finally:
        os.close(descriptor)


def write_all(file: RawIOBase, data: bytes) -> None:
    """Write to an unbuffered file, so that an error is raised now and not on closing."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]


def copy_atomic(source: Path, path: Path) -> None:
    """Copy a file's content atomically."""
    with source.open("rb") as read, writing(path) as file:
        shutil.copyfileobj(read, file)


def check_place(path: Path) -> None:
    """Raise OutputError when `path` cannot become a file; call it before long work.

    One missing folder will be made; several in a row are rather a misspelt path.
    """
    with naming_errors(path):
        _refuse(path)
        if not _written_through(path):
            folder = Path(os.path.realpath(path)).parent
            if not folder.parent.exists():
                raise OutputError(
                    f"{path} cannot be written: neither {folder} nor the folder above it is "
                    "there; make them, or give another place"
                )
            check_folder(folder)


def check_folder(folder: Path) -> None:
    """Raise OSError when `folder` cannot be made or written in; make nothing."""
    existing = _nearest(folder)
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(existing)) from error


@contextmanager
def naming_errors(path: Path) -> Iterator[None]:
    """Turn system errors about writing `path` into OutputError; pass those of other files on."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        # torch raises its own error in the context of the system's
        cause = error if isinstance(error, OSError) else error.__context__
        if not isinstance(cause, OSError) or not _concerns(cause, path):
            raise
        reason = (cause.strerror or str(cause)).lower()
        remedy = REMEDY.get(cause.errno or 0, ELSEWHERE)
        raise OutputError(f"{path} cannot be written ({reason}); {remedy}") from error


@contextmanager
def held(folder: Path, instead: str | None = None) -> Iterator[None]:
    """Lock a folder for this process; wait while another process of this machine holds it.

    With `instead`, the setting that names another folder, raise ValueError instead of waiting. The
    system releases a killed process's lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    refuses = instead is not None and not _patient.get()
    try:
        lock = FileLock(folder / ".lock").acquire(timeout=0 if refuses else -1)
    except Timeout as error:
        raise ValueError(
            f"{folder} is in use by another process; wait for it, or give {instead}"
        ) from error
    with lock:
        yield


@contextmanager
def patient() -> Iterator[None]:
    """Make `held` always wait inside the block: two jobs of a sweep may belong to one run."""
    token = _patient.set(True)
    try:
        yield
    finally:
        _patient.reset(token)


def text_hash(text: str) -> str:
    """Return the SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def bytes_hash(data: bytes) -> str:
    """SHA-256 of bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_hash(paths: Iterable[Path]) -> str:
    """Return the SHA-256 over the digests of several files, in the given order."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(bytes.fromhex(file_hash(path)))
    return digest.hexdigest()


@contextmanager
def _beside(place: Path, synced: bool) -> Iterator[BinaryIO]:
    """Open a file beside its place and rename it; on failure remove it and new folders."""
    new = [folder for folder in place.parents if not folder.exists()]
    temporary = _temporary(place)
    try:
        _nearest(place.parent)
        place.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(place.parent)
        with temporary.open("wb") as file:
            yield file
            file.flush()
            if synced:
                os.fsync(file.fileno())
        if place.exists():
            shutil.copymode(place, temporary)
        os.replace(temporary, place)
    except BaseException:
        with suppress(OSError):  # another process may have put something into a new folder
            temporary.unlink(missing_ok=True)
            for folder in new:
                folder.rmdir()
        raise


def _refuse(path: Path) -> None:
    """Raise an error for a path that may not be replaced: a folder, a protected file, an input."""
    if not path.exists():
        return
    if path.is_dir():
        raise OSError(errno.EISDIR, "it is a folder")
    if not os.access(path, os.W_OK):
        raise OSError(errno.EACCES, "permission denied")
    if any(one.is_file() and one.samefile(path) for one in _read.get()):
        raise OutputError(f"{path} is read by this command; give another place to write to")


def _written_through(path: Path) -> bool:
    """Return True for a device, a pipe, or a file that another program holds open."""
    if not path.exists():
        return False
    place = path.absolute()
    open_elsewhere = place.parent in DEVICES or place.parts[1] == "proc"
    return open_elsewhere or not stat.S_ISREG(path.stat().st_mode)


def _nearest(folder: Path) -> Path:
    """Return the folder, or its nearest parent that exists."""
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not nearest.is_dir():
        raise OSError(errno.ENOTDIR, "not a directory", str(nearest))
    return nearest


def _temporary(place: Path) -> Path:
    """Return the name of a file while it is written."""
    return place.with_name(f".{place.name[:160]}.{MACHINE}.{os.getpid()}.tmp")


@cache
def _remove_leftovers(folder: Path) -> None:
    """Remove files that killed writers of this machine left; done once per folder."""
    for path in folder.glob(f".*.{MACHINE}.*.tmp"):
        pid = path.name.split(".")[-2]
        if pid.isdecimal() and not running(int(pid)):
            with suppress(OSError):  # removed meanwhile, or another user's
                path.unlink()


def running(pid: int) -> bool:
    """Return True if this machine has a process of this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


def _concerns(error: OSError, path: Path) -> bool:
    """Return True for an error about this file, its temporary name, or a folder above it."""
    place = Path(os.path.realpath(path))
    own = {path, *path.parents, place, *place.parents, _temporary(place)}
    return error.filename is None or Path(error.filename) in own
