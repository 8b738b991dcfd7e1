"""Kernels compiled for GPUs that are not there: what they take of one, and what waits for what."""

from pathlib import Path
from typing import Any

import kernel_builds
import pytest
import round_builds
from triton_tests import faulty, kernels_in, needs_triton

from speculative_tts.files import held

pytestmark = needs_triton
Builds = dict[str, dict[str, Any]]
TARGETS = ("sm_80", "sm_90", "sm_100")
REGISTERS, SHARED = (
    65_536,
    99 << 10,
)  # of a block, on any GPU from 8.0 on: consumer cards have least
MOST = {
    "gemv": 80,
    "rows": 200,
    "attention": 200,
    "attention, many": 240,
    "attention, normed": 240,
}  # registers a thread
PLAIN = {"gate", "spread", "rotate"}  # begin when all before them has ended
WEIGHTS = {"gemv": 8 + 4, "gemv, long": 10 + 2}  # loads of a thread, with those of biases


@pytest.fixture(scope="module", params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    """An architecture."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def builds(target: str, tmp_path_factory: pytest.TempPathFactory) -> Builds:
    """All kernels of an architecture by name.

    Where another process has some of these tests one waits, and finds the other's in Triton's
    cache: 14 seconds of a core the first time, one from then on.
    """
    with held(tmp_path_factory.getbasetemp().parent / target):
        return {one["name"]: one for one in kernel_builds.compiled(target)}


def test_kernels_fit_the_gpu(builds: Builds) -> None:
    """Spilled registers would be stack, memory that is read and written as the weights are.

    A few bytes of it are no register of a loop: ptxas takes 8 anyway, 16 where it draws again.
    """
    assert builds.keys() == kernel_builds.BUILDS.keys() | round_builds.BUILDS.keys()
    spilled = {name: one["stack"] for name, one in builds.items() if one["stack"] > 16}
    wide = {name: one["registers"] for name, one in builds.items() if too_wide(one)}
    large = {name: one["shared"] for name, one in builds.items() if one["shared"] > SHARED}
    assert (spilled, wide, large) == ({}, {}, {})


def too_wide(one: dict[str, Any]) -> bool:
    """True if a kernel takes more registers than a block may have, or than it should."""
    registers: int = one["registers"]
    most = MOST.get(one["name"], 255)
    return registers > most or registers * one["threads"] > REGISTERS


def test_weights_are_asked_for_before_the_wait(builds: Builds, target: str) -> None:
    """Results of the kernel before are read, and later kernels start, after the wait.

    Old GPUs have no such wait: a kernel begins when the one before has ended.
    """
    waiting = kernel_builds.BUILDS.keys() - PLAIN if target != "sm_80" else set()
    for name, one in builds.items():
        if name not in waiting:
            assert one["waits"] == 0
            continue
        assert one["waits"] == 1
        assert set(one["before"]) <= {"load"}
        assert one["after"][0] == "launch"
        assert "load" in one["after"]
        if name in WEIGHTS:
            assert len(one["before"]) == WEIGHTS[name]
    assert not builds["norm"]["before"]


@pytest.mark.parametrize("table", [kernel_builds, round_builds])
def test_every_kernel_is_compiled(table: Any) -> None:
    assert {kernel for kernel, *_ in table.BUILDS.values()} == kernels_in(table.PACKAGE)


ORDERED = "    _ordered(FLAGS.pdl)\n    first, second = "  # in the kernel of one to four rows
FAULTS = [  # what stands there, what is planted, the waits and the accesses before them there are
    ("    if PDL:\n        gdc_wait()\n", "", 0, []),
    (ORDERED, "    first, second = ", 0, []),
    (ORDERED, "    tl.store(out + n, n)\n" + ORDERED, 1, ["load"] * 12 + ["store"]),
]


def test_a_missing_wait_and_an_early_store_are_found(tmp_path: Path) -> None:
    """No interpreter sees these: it runs one kernel after the other."""
    asked = []
    for number, (right, wrong, *_) in enumerate(FAULTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        asked.append(f"gemv={faulty('product', right, wrong, folder)}")
    found = [(one["waits"], one["before"]) for one in kernel_builds.compiled("sm_90", *asked)]
    assert found == [(waits, before) for *_, waits, before in FAULTS]
