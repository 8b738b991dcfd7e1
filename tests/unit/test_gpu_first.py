"""scripts/gpu_first.sh rehearsed: what stands for its commands notes what it is asked."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from speculative_tts.commands import bench, decode, train_draft

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "gpu_first.sh"
PARTS = ["pytest", "pytest", "sst-bench", "sst-decode", "sst-decode", "sst-decode", "gpu_table.py"]
COMMANDS: dict[str, ModuleType] = {
    "sst-bench": bench,
    "sst-decode": decode,
    "sst-train-draft": train_draft,
}
STAND_IN = """#!{python}
import json, os, pathlib, sys, time
name, given = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
if given[:1] == ["-c"]:  # asks for a GPU
    sys.exit(int(os.environ["NO_GPU"]))
with open(os.environ["NOTED"], "a") as file:
    print(json.dumps([name, *given]), file=file)
if os.environ.get("LONG") in given:  # until what runs beside it has begun
    time.sleep(2)
print("done by", name)
sys.exit(name == os.environ.get("FAILS"))
"""
Rehearse = Callable[..., tuple[subprocess.CompletedProcess[str], list[list[str]]]]


@pytest.fixture
def rehearse(tmp_path: Path) -> Rehearse:
    """Runs the script with stand-ins: its result, and each command that it ran."""
    for name in ("python", *COMMANDS):
        file = tmp_path / name
        file.write_text(STAND_IN.format(python=sys.executable))
        file.chmod(0o755)

    def run(**settings: str) -> tuple[subprocess.CompletedProcess[str], list[list[str]]]:
        noted = tmp_path / "noted"
        noted.write_text("")
        places = {"PYTHON": tmp_path / "python", "BIN": tmp_path, "NOTED": noted,
                  "OUT": tmp_path / "out", "RESULTS": tmp_path / "results"}  # fmt: skip
        environment = os.environ | {"NO_GPU": "0"} | {k: str(v) for k, v in places.items()}
        done = subprocess.run(
            [SCRIPT], env=environment | settings, capture_output=True, text=True, check=False
        )
        return done, [json.loads(line) for line in noted.read_text().splitlines()]

    return run


def beside(given: list[str]) -> bool:
    """True of what is compiled beside the tests, and ended with them."""
    return any("/busy" in one for one in given)


def names(ran: list[list[str]]) -> list[str]:
    """What each command is, but for those beside the tests: pytest and scripts are Python's."""
    return [
        command if command != "python" else Path(given[1] if given[0] == "-m" else given[0]).name
        for command, *given in ran
        if not beside(given)
    ]


def test_all_parts_are_run_with_settings_that_exist(rehearse: Rehearse, tmp_path: Path) -> None:
    """Each command's settings are composed as it would; tests and scripts are there."""
    done, ran = rehearse(CODES=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert names(ran) == [*PARTS, "sst-train-draft"]
    for command, *given in ran:
        if command in COMMANDS:
            assert COMMANDS[command].main.compose_sweep(given)
        for place in (one for one in given if re.match(r"tests/|scripts/", one)):
            assert (ROOT / place).exists()
    assert done.stdout.endswith("failed: none\n")
    logs = {file.name for file in (tmp_path / "out").iterdir()}
    assert logs >= {"tests.txt", "bench.txt", "table.txt", "decode_float32.txt", "nvidia_smi.txt"}
    assert (tmp_path / "out" / "bench.txt").read_text() == "done by sst-bench\n"


def test_what_is_timed_later_is_compiled_beside_the_tests(rehearse: Rehearse) -> None:
    """By the same commands: a decode in each format, or a bench of few tokens; nothing waits."""
    _, ran = rehearse(LONG="pytest")
    early = [[command, *given] for command, *given in ran if beside(given)]
    assert sorted(command for command, *_ in early) == ["sst-bench", *["sst-decode"] * 3]
    for command, *given in early:
        assert COMMANDS[command].main.compose_sweep(given)


def test_a_part_that_fails_does_not_keep_the_others(rehearse: Rehearse) -> None:
    done, ran = rehearse(FAILS="sst-bench")
    assert names(ran) == PARTS
    assert done.returncode == 1
    assert done.stdout.endswith("failed: bench (1)\n")


def test_without_a_gpu_nothing_is_run(rehearse: Rehearse) -> None:
    done, ran = rehearse(NO_GPU="1")
    assert (done.returncode, ran) == (2, [])


def test_the_parts_end_in_ten_minutes() -> None:
    """Their limits say so, a draft's training left out."""
    text = SCRIPT.read_text()
    limits = {name: int(seconds) for name, seconds in re.findall(r'part "?(\w+)\S* (\d+) ', text)}
    assert limits.keys() == {"heads", "tests", "bench", "decode_", "table", "train"}
    runs = text.count("\ndecode ")
    whole = (
        sum(limits[name] for name in ("heads", "tests", "bench", "table"))
        + runs * limits["decode_"]
    )
    assert (runs, whole) == (3, 600)
