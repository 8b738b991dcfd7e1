"""Kernels compiled for GPUs that are not there: what they take of one, and what waits for what."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kernel_builds import BUILDS, PACKAGE
from triton_tests import faulty, kernels_in, needs_triton

pytestmark = needs_triton
SCRIPT = Path(__file__).parents[3] / "kernel_builds.py"
SHARED = {"sm_80": 163, "sm_90": 227, "sm_100": 227}  # KiB a block may have
MOST = {
    "gemv": 80,
    "rows": 200,
    "attention": 200,
    "attention, many": 240,
    "attention, normed": 240,
}  # registers a thread
PLAIN = {"gate", "join", "spread", "rotate"}  # begin when all before them has ended
WEIGHTS = {"gemv": 8 + 4, "gemv, long": 10 + 2}  # loads of a thread, with those of biases


@pytest.fixture(scope="module")
def builds() -> dict[str, dict[str, dict[str, Any]]]:
    """By architecture and name, each architecture in a process without the interpreter."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    running = {
        target: subprocess.Popen(
            [sys.executable, SCRIPT, target], stdout=subprocess.PIPE, text=True, env=environment
        )
        for target in SHARED
    }
    found = {}
    for target, process in running.items():
        text, _ = process.communicate()
        assert process.returncode == 0
        found[target] = {one["name"]: one for one in map(json.loads, text.splitlines())}
    return found


@pytest.mark.parametrize("name", BUILDS)
@pytest.mark.parametrize("target", SHARED)
def test_a_kernel_fits_the_gpu(
    builds: dict[str, dict[str, dict[str, Any]]], target: str, name: str
) -> None:
    """Spilled registers would be stack, memory that is read and written as the weights are.

    A few bytes of it are no register of a loop: ptxas takes 8 for sm_100.
    """
    one = builds[target][name]
    assert one["stack"] <= 8
    assert one["registers"] <= MOST.get(name, 255)
    assert one["shared"] <= SHARED[target] << 10


@pytest.mark.parametrize("target", [target for target in SHARED if target != "sm_80"])
def test_weights_are_asked_for_before_the_wait(
    builds: dict[str, dict[str, dict[str, Any]]], target: str
) -> None:
    """And nothing that the kernel before wrote: its results are read, and others start, after."""
    for name, one in builds[target].items():
        if name in PLAIN:
            assert one["waits"] == 0
            continue
        assert one["waits"] == 1
        assert set(one["before"]) <= {"load"}
        assert one["after"][0] == "launch"
        assert "load" in one["after"]
        if name in WEIGHTS:
            assert len(one["before"]) == WEIGHTS[name]
    assert not builds[target]["norm"]["before"]


def test_every_kernel_is_compiled() -> None:
    assert {f"{module}.{kernel}" for module, kernel, *_ in BUILDS.values()} == kernels_in(PACKAGE)


def test_old_gpus_wait_for_the_kernel_before(
    builds: dict[str, dict[str, dict[str, Any]]],
) -> None:
    assert not any(one["waits"] for one in builds["sm_80"].values())


ORDERED = "    _ordered(PDL)\n    first, second = "  # in the kernel of one to four rows


@pytest.mark.parametrize(
    ("right", "wrong", "waits", "before"),
    [
        ("    if PDL:\n        gdc_wait()\n", "", 0, 0),
        (ORDERED, "    first, second = ", 0, 0),
        (ORDERED, "    tl.store(out + n, n)\n" + ORDERED, 1, 13),
    ],
)
def test_a_missing_wait_and_an_early_store_are_found(
    right: str, wrong: str, waits: int, before: int, tmp_path: Path
) -> None:
    file = faulty("product", right, wrong, tmp_path)
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, SCRIPT, "sm_90", f"gemv={file}"]
    found = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    one = json.loads(found.stdout)
    assert (one["waits"], len(one["before"])) == (waits, before)
    assert ("store" in one["before"]) == (before > 0)
