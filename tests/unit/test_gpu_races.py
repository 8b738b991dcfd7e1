"""No two threads of a kernel's program race; a barrier that is missing is found.

Triton's interpreter runs a program as one thread, so that it sees none of this; a missing wait for
the kernel before is found in what is compiled (`test_gpu_builds`).
"""

import kernel_builds
import pytest
import round_builds
from barriers import Race, Races, sources_of

BARRIER = "tl.debug_barrier()"
TABLES = {table.PACKAGE: table.BUILDS for table in (kernel_builds, round_builds)}
DISJOINT: dict[str, dict[Race, str]] = {  # pairs at different addresses, and why they are
    "join_kernel": {
        ("out", "store out + row * 2 * K + i", "store out + row * 2 * K + K + i"): "halves",
    },
    "attention_kernel": {
        (tensor, *pair): "new positions, and old ones before `begin`"
        for tensor in ("past_keys", "past_values")
        for pair in (
            (f"load past.{tensor} + at", f"store past.{tensor} + to"),
            (f"store past.{tensor} + to", f"load past.{tensor} + at"),
        )
    },
    "path_kernel": {
        ("laws", "store law + token", "store law + v"): "one position's law and the next one's",
        ("laws", "store law + v", "store law + token"): "one position's law and the next one's",
        ("reached", "load reached + (t - 1) % 2 * SIZE + j", "store reached + t % 2 * SIZE + i"):
            "two buffers",
    },
    "walk_kernel": {
        ("messages", "load messages + (t + 1) * SIZE + j", "store messages + t * SIZE + i"):
            "the next position's and this one's",
    },
    "candidates_kernel": {
        ("ids", "store found.ids + at + j", "store found.ids + at + place"):
            "from TOP on, and before it",
    },
    "repetition_aware_kernel": {
        ("out", "store target + v", "store out + base + v"): "tiles of the same threads",
    },
}  # fmt: skip


SPARE = {  # barriers between accesses that are each thread's own, if Triton lays both out alike
    ("laws", 0): "the nucleus reads the tiles it wrote",
    ("blocks", 2): "drafted tokens are read where they were written",
}


def tensors(package: str, module: str, kernel: str) -> list[str]:
    """Arguments of a kernel that are tensors."""
    types = next(one[1] for one in TABLES[package].values() if one[0] == f"{module}.{kernel}")
    return [name for name, kind in types.items() if (kind or "").startswith("*")]


def unexplained(found: Races, package: str, module: str, kernel: str) -> set[Race]:
    races = found.of(module, kernel, tensors(package, module, kernel))
    return races - DISJOINT.get(kernel, {}).keys()


@pytest.mark.parametrize("package", TABLES)
def test_no_two_threads_race(package: str) -> None:
    """Pairs that are let pass are there."""
    found = Races(package)
    for module, kernel in found.kernels:
        races = found.of(module, kernel, tensors(package, module, kernel))
        assert races == DISJOINT.get(kernel, {}).keys(), kernel


BARRIERS = [
    (package, module, number)
    for package in TABLES
    for module, source in sources_of(package).items()
    for number in range(source.count(BARRIER))
]


@pytest.mark.parametrize(("package", "module", "number"), BARRIERS)
def test_each_missing_barrier_is_found(package: str, module: str, number: int) -> None:
    """Kernels of its module show it, or those of others that call its helpers."""
    before, *parts = sources_of(package)[module].split(BARRIER)
    faulty = before + "".join(("pass" if i == number else BARRIER) + x for i, x in enumerate(parts))
    found = Races(package, {module: faulty})
    near = sorted(found.kernels, key=lambda key: key[0] != module)
    seen = any(unexplained(found, package, *key) for key in near)
    assert seen is ((module, number) not in SPARE)
