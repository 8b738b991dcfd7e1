"""The one writer of files, locks and hashes."""

import ast
import hashlib
import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from speculative_tts import files
from speculative_tts.files import (
    MACHINE,
    OutputError,
    check_place,
    copy_atomic,
    file_hash,
    files_hash,
    held,
    reading,
    sync,
    write_atomic,
    writing,
)
from speculative_tts.records import Appender, read_jsonl

PACKAGES = [*Path(__file__).parents[2].glob("speculative_tts*")]


@contextmanager
def largest(size: int) -> Iterator[None]:
    """A limit on the size of a file: a disk that is full, but for this process alone."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))  # Python ignores the signal
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_write_leaves_nothing_beside(tmp_path: Path) -> None:
    write_atomic(tmp_path / "new" / "a.bin", b"old")
    write_atomic(tmp_path / "new" / "a.bin", b"new")
    write_atomic(tmp_path / "new" / "b.txt", "é")
    assert (tmp_path / "new" / "a.bin").read_bytes() == b"new"
    assert (tmp_path / "new" / "b.txt").read_text(encoding="utf-8") == "é"
    assert names(tmp_path / "new") == ["a.bin", "b.txt"]


def test_what_a_killed_writer_left_goes_with_the_next_write(tmp_path: Path) -> None:
    """It stayed for ever; that of a process which lives, or of another machine, stays still."""
    dies = f"""
import os, pathlib, sys
from speculative_tts.files import writing
with writing(pathlib.Path({str(tmp_path / "a.bin")!r})) as file:
    file.write(b"half"); file.flush()
    os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", dies], check=False)
    (left,) = names(tmp_path)
    assert left.startswith(".a.bin.")
    begin, pid, _ = left.rsplit(".", 2)
    others = {f"{begin}.{os.getppid()}.tmp", f".a.bin.elsewhere-{MACHINE}.{pid}.tmp", ".x.tmp"}
    for name in others:
        (tmp_path / name).touch()
    write_atomic(tmp_path / "b.bin", b"new")
    assert set(names(tmp_path)) == {"b.bin", *others}


def test_a_failed_write_changes_nothing(tmp_path: Path) -> None:
    """The temporary file, and folders made for it, stayed behind."""
    write_atomic(tmp_path / "a.bin", b"old")
    for path in (tmp_path / "a.bin", tmp_path / "x" / "y" / "b.bin"):
        with pytest.raises(ZeroDivisionError), writing(path) as file:
            file.write(b"half" * (1 // 0))
    assert (tmp_path / "a.bin").read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


SAVE: dict[str, Callable[[Any, Any], object]] = {
    "bytes": lambda zeros, file: file.write(zeros.tobytes()),
    "numpy": lambda zeros, file: np.savez(file, zeros=zeros),
    "torch": lambda zeros, file: torch.save(torch.from_numpy(zeros), file),
}


@pytest.mark.parametrize("library", SAVE)
def test_a_full_disk_is_told_with_path_and_remedy(tmp_path: Path, library: str) -> None:
    """It was "[Errno 28] No space left on device", and .tmp files stayed; here a limit is full."""
    path, zeros = tmp_path / "runs" / "out.bin", np.zeros(100_000)
    write_atomic(tmp_path / "whole", b"")
    with largest(10_000), pytest.raises(OutputError) as raised, writing(path) as file:
        SAVE[library](zeros, file)
    reason = "cannot be written (file too large); raise the limit of file sizes, or give another"
    assert str(raised.value) == f"{path} {reason} place"
    assert names(tmp_path) == ["whole"]


def test_a_growing_file_on_a_full_disk_is_told(tmp_path: Path) -> None:
    appender = Appender(tmp_path / "rows.jsonl")
    appender.append({"id": "a"})
    with largest(10_000), pytest.raises(OutputError, match=r"rows.jsonl cannot be written \(file"):
        appender.append({"id": "b" * 20_000})
    appender.close()
    assert [row["id"] for row in read_jsonl(tmp_path / "rows.jsonl")] == ["a"]


@pytest.mark.parametrize("there", [True, False])
def test_what_need_not_be_waited_for_waits_for_one_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """Of a whole machine where its system cannot wait for one of its disks."""
    waits: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _: waits.append("file"))
    monkeypatch.setattr(os, "sync", lambda: waits.append("machine"))
    if not there:
        monkeypatch.setattr(files.ctypes, "CDLL", lambda _: object())
    write_atomic(tmp_path / "a", b"", synced=False)
    assert waits == []
    sync(tmp_path)
    assert waits == ([] if there else ["machine"])
    write_atomic(tmp_path / "b", b"")
    assert waits[-1:] == ["file"]


def test_a_full_device_is_told() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with pytest.raises(OutputError, match=r"/dev/full cannot be written \(no space .*free some"):
        write_atomic(Path("/dev/full"), b"x" * 100_000)


def test_a_device_is_written_through(tmp_path: Path) -> None:
    """As root /dev/null was replaced by a regular file."""
    write_atomic(Path("/dev/null"), b"lost")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    if os.geteuid() == 0:
        node = tmp_path / "null"
        try:
            os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("device nodes cannot be made here")
        write_atomic(node, b"lost")
        assert stat.S_ISCHR(node.stat().st_mode)
        assert names(tmp_path) == ["null"]


def test_a_pipe_is_written_through(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_atomic(pipe, b"spoken")
    reader.join(timeout=30)
    assert read == [b"spoken"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_standard_output_is_written_through_even_into_a_file(tmp_path: Path) -> None:
    """The shell holds the file open: a new one of the same name would not be it."""
    code = "from pathlib import Path; from speculative_tts.files import write_atomic\n"
    code += "write_atomic(Path('/dev/stdout'), b'wav')"
    with (tmp_path / "out.wav").open("wb") as out:
        before = os.fstat(out.fileno()).st_ino
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True)
    assert (tmp_path / "out.wav").read_bytes() == b"wav"
    assert (tmp_path / "out.wav").stat().st_ino == before


def test_a_symlink_is_followed(tmp_path: Path) -> None:
    """It was replaced, and what it led to stayed old."""
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "real.wav").write_bytes(b"old")
    (tmp_path / "link.wav").symlink_to("far/real.wav")
    (tmp_path / "dangling.wav").symlink_to("far/new.wav")
    write_atomic(tmp_path / "link.wav", b"new")
    write_atomic(tmp_path / "dangling.wav", b"new")
    assert (tmp_path / "link.wav").is_symlink()
    assert (tmp_path / "dangling.wav").is_symlink()
    assert (tmp_path / "far" / "real.wav").read_bytes() == b"new"
    assert (tmp_path / "far" / "new.wav").read_bytes() == b"new"
    assert names(tmp_path / "far") == ["new.wav", "real.wav"]


def test_the_mode_of_a_file_stays(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", b"old")
    (tmp_path / "a").chmod(0o640)
    write_atomic(tmp_path / "a", b"new")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


@pytest.mark.parametrize("write", [check_place, lambda path: write_atomic(path, b"")])
def test_what_cannot_be_a_file_is_refused_with_a_remedy(tmp_path: Path, write: object) -> None:
    assert callable(write)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match=r"cannot be written \(it is a folder\); give the name"):
        write(tmp_path)
    below = tmp_path / "file" / "x.wav"
    with pytest.raises(OutputError, match=r"file/x.wav cannot be written \(not a directory\);"):
        write(below)
    long = tmp_path / ("a" * 300)
    if write is not check_place:
        with pytest.raises(OutputError, match=r"file name too long\); give a shorter name"):
            write(long)
    assert names(tmp_path) == ["file"]


def test_checking_a_place_makes_nothing(tmp_path: Path) -> None:
    check_place(tmp_path / "new" / "out.wav")
    assert names(tmp_path) == []


def test_folders_of_a_misspelt_path_are_not_made(tmp_path: Path) -> None:
    """`sst-speak out=/nonexistent/x/a.wav` made all of them."""
    with pytest.raises(OutputError, match=r"neither .*/nonexistent/x nor the folder above it is"):
        check_place(tmp_path / "nonexistent" / "x" / "a.wav")
    assert names(tmp_path) == []


def test_what_is_read_is_never_replaced(tmp_path: Path) -> None:
    """sst-speak out=<the prompt> overwrote the user's recording."""
    recording, link = tmp_path / "me.wav", tmp_path / "link.wav"
    recording.write_bytes(b"mine")
    link.symlink_to(recording)
    with reading([recording]):
        for path in (recording, link, tmp_path / "." / "me.wav"):
            with pytest.raises(OutputError, match=r"is read by this command; give another place"):
                write_atomic(path, b"yours")
        write_atomic(tmp_path / "other.wav", b"fine")
    assert recording.read_bytes() == b"mine"
    write_atomic(recording, b"later")


def test_an_error_of_another_file_passes(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        copy_atomic(tmp_path / "absent", tmp_path / "a")
    with pytest.raises(FileNotFoundError, match="elsewhere"), writing(tmp_path / "a"):
        Path("elsewhere/absent").read_bytes()
    assert names(tmp_path) == []


def test_hashes_are_those_of_sha256(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(name.encode())
    a, b = (hashlib.sha256(name.encode()) for name in "ab")
    assert file_hash(tmp_path / "a") == a.hexdigest()
    both = hashlib.sha256(a.digest() + b.digest()).hexdigest()
    assert files_hash([tmp_path / "a", tmp_path / "b"]) == both


def test_a_folder_is_held_by_one_process(tmp_path: Path) -> None:
    code = "import sys, pathlib; from speculative_tts.files import held\n"
    code += "with held(pathlib.Path(sys.argv[1]), 'out=<other>'): print('held')"
    command = [sys.executable, "-c", code, str(tmp_path / "new")]
    with held(tmp_path / "new"):
        other = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "is in use by another process; wait for it, or give out=<other>" in other.stderr
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "held\n"


def test_no_other_module_writes_files_by_hand() -> None:
    """A file that is written in another way may be half, or be left behind, or be an input."""
    by_hand = {"write_text", "write_bytes", "copyfile", "copy2", "save_file", "to_parquet"}
    # what lhotse and the compiler wrote into a folder of ours
    moves = {"libritts.py", "compile.py", "files.py"}
    grows = {"files.py", "ray_launcher.py"}  # what a job says is read while it goes on
    for path in (path for package in PACKAGES for path in package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            where, name = f"{path.name}:{node.lineno}", node.func.attr
            assert name not in by_hand, f"{where} writes by {name}; use files.writing"
            if ast.unparse(node.func) == "os.replace":
                assert path.name in moves, f"{where} replaces a file; use files.writing"
            mode = [ast.unparse(argument) for argument in node.args[-1:]]
            if name == "open" and path.name not in grows:
                assert mode not in (["'w'"], ["'wb'"]), f"{where} opens to write; use files.writing"
