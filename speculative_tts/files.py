"""How files come to be: written whole or not at all, never over what is read; locks and hashes.

`writing` is the one place from which this package makes a file. A symlink is followed, a device or
a pipe is written through, what a failed write began is taken away again (by the next writer if this
one was killed), and the error says which file, why, and what to do.
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
    """A file that cannot be written; the message names it, the reason and the remedy."""


@contextmanager
def reading(paths: Iterable[Path]) -> Iterator[None]:
    """Protect files: inside the block `writing` refuses to replace any of them."""
    token = _read.set((*_read.get(), *paths))
    try:
        yield
    finally:
        _read.reset(token)


@contextmanager
def writing(path: Path, *, synced: bool = True) -> Iterator[BinaryIO]:
    """A binary file that becomes `path` when the block ends; if it fails, nothing has changed.

    Folders that are not there are made. Raises OutputError where the file cannot be written.
    Unless `synced` (an fsync, 10 ms on a disk) a power failure may take it until `sync`.
    """
    with told(path):
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
    """Wait until all that was written to the file system of `folder` outlasts a power failure.

    One wait for many files, where an fsync is one a file; what a killed process wrote needs none.
    """
    syncfs = getattr(ctypes.CDLL(None), "syncfs", None)  # of Linux
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if syncfs is None or syncfs(descriptor):
            os.sync()
    finally:
        os.close(descriptor)


def write_all(file: RawIOBase, data: bytes) -> None:
    """Write to an unbuffered file: what cannot be written is told now, not when it is closed."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]


def copy_atomic(source: Path, path: Path) -> None:
    """Copy a file's content."""
    with source.open("rb") as read, writing(path) as file:
        shutil.copyfileobj(read, file)


def check_place(path: Path) -> None:
    """OutputError when `path` cannot become a file; called before the work whose result it is."""
    with told(path):
        _refuse(path)
        if not _written_through(path):
            check_folder(Path(os.path.realpath(path)).parent)


def check_folder(folder: Path) -> None:
    """OSError when `folder` cannot be made, or nothing be written in it; makes nothing."""
    there = _nearest(folder)
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(there)) from error


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Errors of the system while `path` is written as OutputError; those of other files pass."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        # torch's own error comes on top of the system's
        cause = error if isinstance(error, OSError) else error.__context__
        if not isinstance(cause, OSError) or not _concerns(cause, path):
            raise
        reason = (cause.strerror or str(cause)).lower()
        remedy = REMEDY.get(cause.errno or 0, ELSEWHERE)
        raise OutputError(f"{path} cannot be written ({reason}); {remedy}") from error


@contextmanager
def held(folder: Path, instead: str | None = None) -> Iterator[None]:
    """Hold a folder for this process; waits while another of this machine holds it.

    With `instead`, the setting that leads elsewhere, raises ValueError in place of waiting.
    The system gives a lock back when its process is killed.
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
    """Inside the block `held` always waits: jobs of a sweep may be of one run, or of a lost one."""
    token = _patient.set(True)
    try:
        yield
    finally:
        _patient.reset(token)


def text_hash(text: str) -> str:
    """SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def bytes_hash(data: bytes) -> str:
    """SHA-256 of bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def file_hash(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_hash(paths: Iterable[Path]) -> str:
    """SHA-256 over several files in the order given: that of their digests."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(bytes.fromhex(file_hash(path)))
    return digest.hexdigest()


@contextmanager
def _beside(place: Path, synced: bool) -> Iterator[BinaryIO]:
    """A file beside its place that is renamed into it; it and new folders go if that fails."""
    made = [folder for folder in place.parents if not folder.exists()]
    temporary = _temporary(place)
    try:
        _nearest(place.parent)
        place.parent.mkdir(parents=True, exist_ok=True)
        _clear_of_the_dead(place.parent)
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
            for folder in made:
                folder.rmdir()
        raise


def _refuse(path: Path) -> None:
    """Raise for what is no file to be replaced: a folder, one of somebody else, an input."""
    if not path.exists():
        return
    if path.is_dir():
        raise OSError(errno.EISDIR, "it is a folder")
    if not os.access(path, os.W_OK):
        raise OSError(errno.EACCES, "permission denied")
    if any(one.is_file() and one.samefile(path) for one in _read.get()):
        raise OutputError(f"{path} is read by this command; give another place to write to")


def _written_through(path: Path) -> bool:
    """Is this a device, a pipe, or a file that another program holds open?"""
    if not path.exists():
        return False
    place = path.absolute()
    open_elsewhere = place.parent in DEVICES or place.parts[1] == "proc"
    return open_elsewhere or not stat.S_ISREG(path.stat().st_mode)


def _nearest(folder: Path) -> Path:
    """The folder, or the first on the way up that is there."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise OSError(errno.ENOTDIR, "not a directory", str(there))
    return there


def _temporary(place: Path) -> Path:
    """What a file is called while it is written."""
    return place.with_name(f".{place.name[:160]}.{MACHINE}.{os.getpid()}.tmp")


@cache
def _clear_of_the_dead(folder: Path) -> None:
    """Take away what killed writers of this machine left in a folder; once, for it may be long."""
    for path in folder.glob(f".*.{MACHINE}.*.tmp"):
        pid = path.name.split(".")[-2]
        if pid.isdecimal() and not running(int(pid)):
            with suppress(OSError):  # gone meanwhile, or of somebody else
                path.unlink()


def running(pid: int) -> bool:
    """Is there a process of this number on this machine?"""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of somebody else
        return True
    return True


def _concerns(error: OSError, path: Path) -> bool:
    """Is it about this file, what it is while it is written, or a folder that leads to it?"""
    place = Path(os.path.realpath(path))
    own = {path, *path.parents, place, *place.parents, _temporary(place)}
    return error.filename is None or Path(error.filename) in own
