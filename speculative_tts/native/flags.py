"""Compiler flags of the C++ here. Standard library only: setup.py reads it without the package."""

import hashlib
import platform
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
SOURCES = tuple(sorted(FOLDER.glob("*.cpp")))
OPTIONS = ("-O3", "-std=c++17", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-pthread")
LINKING = ("-shared", "-pthread", *(() if sys.platform == "darwin" else ("-Wl,-Bsymbolic",)))
AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx2", "-mfma")
FLAGS = {  # by instruction set, the fastest first
    "avx512bf16": (*AVX512, "-mavx512vnni", "-mavx512bf16"),
    "avx512": AVX512,
    "avx2": ("-mavx2", "-mfma"),
    "portable": (),
}


def sets() -> tuple[str, ...]:
    """Return the instruction sets that a compiler for this kind of machine knows."""
    return tuple(FLAGS) if platform.machine().lower() in ("x86_64", "amd64") else ("portable",)


def source_hash() -> str:
    """Return the SHA-256 of all sources and headers."""
    files = sorted([*FOLDER.glob("*.cpp"), *FOLDER.glob("*.h")])
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def options(instructions: str) -> list[str]:
    """Return the compiler's flags for one instruction set."""
    return [*OPTIONS, *FLAGS[instructions], f'-DSST_SOURCE="{source_hash()}"']
