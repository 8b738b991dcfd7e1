"""Reasons for surviving mutants are about lines that are there; `make mutants` checks the rest."""

import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def test_reasons_are_about_lines_that_are_there() -> None:
    reasons = yaml.safe_load((ROOT / "tests/mutants.yaml").read_text())
    for name, entries in reasons.items():
        lines = (ROOT / f"speculative_tts/{name}.py").read_text().splitlines()
        source = " ".join(map(str.strip, lines))
        for entry in entries:
            assert entry["why"]
            stale = [one for one in entry["mutants"] if one.partition(" -> ")[0] not in source]
            assert not stale, f"tests/mutants.yaml: {name}"


def test_a_run_leaves_the_package_to_its_folder() -> None:
    """Regression: its page had imported the package first, the one without mutants."""
    script = "import sys, mutants; print('speculative_tts' in sys.modules)"
    given = [sys.executable, "-c", script]
    done = subprocess.run(given, cwd=ROOT / "scripts", stdout=subprocess.PIPE, check=True)
    assert done.stdout.split() == [b"False"]


def test_a_runs_page_is_of_the_package_itself() -> None:
    """Regression: it was made in the run's process, whose package knows of no commit."""
    script = (
        "import mutants, subprocess, sys; sys.argv[1:] = ['run']; mutants.run = lambda given: 0; "
        "subprocess.run = lambda asked, cwd, check: sys.exit(f'{asked[-1]} {cwd}'); mutants.main()"
    )
    given = [sys.executable, "-c", script]
    done = subprocess.run(given, cwd=ROOT / "scripts", stderr=subprocess.PIPE, check=False)
    assert done.stderr.decode().split() == ["page", str(ROOT / "scripts")]
