"""The library of the native step: compiled once, its owner's alone, and what is done without it."""

import ctypes
import logging
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
import torch

from speculative_tts.assets import resolve
from speculative_tts.models.decoder.cache import KVCache
from speculative_tts.models.families.merged_vocab import MergedVocabLM
from speculative_tts.native import compile as compiling
from speculative_tts.native import flags, library
from speculative_tts.native.compile import CannotCompileError
from speculative_tts.schema.decode import Kernels

CPU = torch.device("cpu")
CROSS = "aarch64-linux-gnu-g++"
UNOPTIMISED = tuple("-O0" if option == "-O3" else option for option in flags.OPTIONS)


@pytest.mark.skipif(shutil.which(CROSS) is None, reason=f"no {CROSS}")
def test_the_portable_build_compiles_for_arm64(tmp_path: Path) -> None:
    sources = map(str, flags.SOURCES)
    command = [CROSS, *flags.OPTIONS, *flags.LINKING, "-Wall", "-Werror", *sources]
    subprocess.run([*command, "-o", str(tmp_path / "arm.so")], check=True)


@pytest.fixture
def folder(tmp_path: Path, instructions: pytest.MonkeyPatch) -> Path:
    """An empty cache, and this process as if nothing were loaded; a compiler in a hurry."""
    instructions.setenv("XDG_CACHE_HOME", str(tmp_path))
    instructions.setattr(flags, "OPTIONS", UNOPTIMISED)
    library.warn_once.cache_clear()
    return tmp_path / "speculative_tts" / "native"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with a portable library, compiled once for all that load it."""
    kept = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(kept))
        patch.setattr(flags, "OPTIONS", UNOPTIMISED)
        compiling.cached("portable")
    return kept / "speculative_tts" / "native"


@pytest.fixture
def filled(made: Path, folder: Path) -> Path:
    """A copy of it as this process's own."""
    shutil.copytree(made, folder)
    return folder


@pytest.fixture
def short(folder: Path, tmp_path: Path, instructions: pytest.MonkeyPatch) -> Path:
    """An empty cache, for what is compiled of a source of one line."""
    source = tmp_path / "one.cpp"
    source.write_text('extern "C" int one() { return 1; }\n')
    instructions.setattr(compiling, "SOURCES", (source,))
    return folder


@pytest.mark.native
def test_what_is_compiled_is_the_owners_alone_and_compiled_once(filled: Path) -> None:
    assert stat.S_IMODE(filled.stat().st_mode) == 0o700
    files = {file: file.stat() for file in filled.iterdir()}
    assert {stat.S_IMODE(state.st_mode) for state in files.values()} == {0o600}
    path = compiling.cached("portable")
    assert path.stat().st_mtime_ns == files[path].st_mtime_ns
    assert library.load("portable").sst_source().decode() == flags.source_hash()


@pytest.mark.native
@pytest.mark.usefixtures("short")
def test_a_compiled_file_that_was_changed_is_not_loaded() -> None:
    path = compiling.cached("portable")
    good = path.read_bytes()
    path.write_bytes(good[:-1] + b"?")
    assert compiling.cached("portable") == path  # compiled again
    assert path.read_bytes() != good[:-1] + b"?"


@pytest.mark.parametrize("mode", [0o755, 0o770])
def test_a_folder_that_others_see_into_is_refused(folder: Path, mode: int) -> None:
    folder.mkdir(parents=True)
    folder.chmod(mode)
    with pytest.raises(CannotCompileError, match=r"is not this user's alone; chmod 700 it, or set"):
        compiling.cached("portable")


@pytest.mark.native
def test_a_file_that_others_may_write_or_a_link_is_refused(short: Path) -> None:
    path = compiling.cached("portable")
    path.chmod(0o620)
    with pytest.raises(CannotCompileError, match=r"is not this user's alone; remove it"):
        compiling.cached("portable")
    path.chmod(0o600)
    path.rename(short / "elsewhere")
    path.symlink_to(short / "elsewhere")
    with pytest.raises(CannotCompileError, match=r"is not this user's alone; remove it"):
        compiling.cached("portable")


@pytest.mark.native
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
@pytest.mark.usefixtures("short")
def test_a_file_of_another_user_is_refused() -> None:
    path = compiling.cached("portable")
    os.chown(path, 12345, 12345)
    with pytest.raises(CannotCompileError, match=r"is not this user's alone"):
        compiling.cached("portable")


def test_without_a_compiler_torch_computes_and_one_line_says_so(
    folder: Path, tmp_path: Path, instructions: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    instructions.setenv("PATH", str(tmp_path))
    instructions.delenv("CXX", raising=False)
    instructions.setattr(library, "PATTERN", "none")  # as if not compiled at installation
    with caplog.at_level(logging.WARNING):
        assert library.kernel_name() == "torch"
        lm = MergedVocabLM.load(resolve("tiny:draft"), dtype=torch.float32, device=CPU)
        assert isinstance(lm.cache(1, 8), KVCache)
    (record,) = caplog.records
    assert record.getMessage() == (
        "runtime.kernels=auto computes with torch, several times slower: "
        "no C++ compiler c++ or g++ or clang++ on PATH; install g++ or clang"
    )
    with pytest.raises(
        ValueError,
        match=r"^runtime\.kernels=native: no C\+\+ compiler .*; install "
        r"g\+\+ or clang; or use runtime\.kernels=torch$",
    ):
        library.select(Kernels.native)
    instructions.setenv("CXX", "/no/such/c++")
    with pytest.raises(CannotCompileError, match=r"no C\+\+ compiler /no/such/c\+\+ on PATH"):
        compiling.compiler()


def test_a_compiler_that_fails_is_named_with_its_first_line(
    folder: Path, tmp_path: Path, instructions: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken-c++"
    broken.write_text("#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho 'no space' >&2; exit 1\n")
    broken.chmod(0o700)
    instructions.setenv("CXX", str(broken))
    with pytest.raises(CannotCompileError, match=r"broken-c\+\+ does not compile: no space"):
        compiling.cached("portable")
    assert [path.name for path in folder.iterdir()] == []  # nothing half made


@pytest.mark.native
@pytest.mark.usefixtures("filled")
def test_a_library_of_another_source_is_passed_over(instructions: pytest.MonkeyPatch) -> None:
    """An installed one that is older than the Python beside it."""
    path = compiling.cached("portable")
    assert isinstance(library.open_library(path), ctypes.CDLL)
    instructions.setattr(flags, "source_hash", lambda: "another")
    assert library.open_library(path) is None
