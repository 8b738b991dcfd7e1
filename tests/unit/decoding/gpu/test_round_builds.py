"""Kernels of rounds compiled for GPUs that are not there: registers, spills, shared memory."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from round_builds import BUILDS, PACKAGE
from triton_tests import kernels_in, needs_triton

pytestmark = needs_triton
SCRIPT = Path(__file__).parents[3] / "round_builds.py"
SHARED = {"sm_80": 163, "sm_90": 227, "sm_100": 227}  # KiB a block may have
REGISTERS = 65_536  # of all threads of a block


WHOLE = ("sm_80", "sm_100")  # left to `make check`: they differ from sm_90 in little


@cache
def builds(target: str) -> dict[str, dict[str, Any]]:
    """By name, all kernels of an architecture, in a process without the interpreter."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, SCRIPT, target]
    made = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert made.returncode == 0, made.stderr
    return {one["name"]: one for one in map(json.loads, made.stdout.splitlines())}


@pytest.mark.parametrize("name", BUILDS)
@pytest.mark.parametrize(
    "target",
    [pytest.param(one, marks=[pytest.mark.whole] if one in WHOLE else []) for one in SHARED],
)
def test_a_kernel_fits_the_gpu(target: str, name: str) -> None:
    """Spilled registers would be stack, memory that is read; ptxas takes 8 bytes anyway."""
    one, warps = builds(target)[name], BUILDS[name][-1]
    assert one["stack"] <= 8
    assert one["registers"] * 32 * warps <= REGISTERS
    assert one["shared"] <= SHARED[target] << 10


def test_every_kernel_is_compiled() -> None:
    assert {kernel for kernel, *_ in BUILDS.values()} == kernels_in(PACKAGE)
