"""Compiling the C++ here at first use.

A compiled file is named by what it was made from. It is kept in a folder that is the owner's alone,
and loaded only if folder, owner and content are what they were when it was written.
"""

import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from speculative_tts.files import file_hash, text_hash, write_atomic
from speculative_tts.native.flags import LINKING, SOURCES, options

COMPILERS = ("c++", "g++", "clang++")
TIMEOUT = 300  # seconds


class CannotCompileError(Exception):
    """No compiler, one that fails, or no folder for what it makes; the text is one line."""


def compiler() -> list[str]:
    """Return $CXX, or the first compiler there is; raise CannotCompileError without one."""
    named = shlex.split(os.environ.get("CXX", ""))
    for name in named[:1] or COMPILERS:
        if shutil.which(name):
            return named or [name]
    looked_for = " or ".join(named[:1] or COMPILERS)
    raise CannotCompileError(f"no C++ compiler {looked_for} on PATH; install g++ or clang")


def cached(instructions: str) -> Path:
    """Return an instruction set's library, made where none is cached; CannotCompileError if not."""
    folder = _own_folder()
    command = [*compiler(), *options(instructions), *LINKING]
    made_from = " ".join([platform.machine(), platform.platform(), *command, _version(command[0])])
    name = text_hash(made_from)[:16]
    path = folder / f"native-{instructions}-{name}.so"
    if not _verified(path):
        _compile(command, path)
    return path


def _compile(command: list[str], path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        made = Path(scratch) / path.name
        full = [*command, *map(str, SOURCES), "-o", str(made)]
        try:
            subprocess.run(full, check=True, capture_output=True, text=True, timeout=TIMEOUT)
        except subprocess.CalledProcessError as error:
            reason = (error.stderr.strip().splitlines() or ["no message"])[0]
            raise CannotCompileError(f"{command[0]} does not compile: {reason}") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotCompileError(f"{command[0]} does not run: {error}") from error
        made.chmod(0o600)
        digest = Path(scratch) / "digest"
        write_atomic(digest, file_hash(made))
        digest.chmod(0o600)
        os.replace(made, path)
        os.replace(digest, _digest_of(path))


def _verified(path: Path) -> bool:
    """True if the file is there, this user's own, and has the content that was written."""
    digest = _digest_of(path)
    if not (path.is_file() and digest.is_file()):
        return False
    if not (_own(path) and _own(digest)):
        raise CannotCompileError(f"{path} is not this user's alone; remove it")
    return file_hash(path) == digest.read_text()


def _digest_of(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _own_folder() -> Path:
    """Return the folder of compiled files, which nobody else may read or write."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "speculative_tts" / "native"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CannotCompileError(
            f"cannot make {folder} ({error.strerror}); set XDG_CACHE_HOME to a folder of yours"
        ) from error
    if not _own(folder):
        raise CannotCompileError(
            f"{folder} is not this user's alone; chmod 700 it, or set XDG_CACHE_HOME"
        )
    return folder


def _own(path: Path) -> bool:
    """True if it is this user's, closed to others, and no link, whose mode is open."""
    state = path.lstat()
    return state.st_uid == os.getuid() and not state.st_mode & 0o077


def _version(program: str) -> str:
    found = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return found.stdout.partition("\n")[0]
