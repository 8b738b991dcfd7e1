"""scripts/paper.sh, dry: what it would run or submit is what there is, in its order."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from cli.test_makefile import said
from cli.test_paper_guide import commands, compose

from speculative_tts.commands import decode

pytestmark = pytest.mark.whole

ROOT = Path(__file__).parents[2]
PAPERS = ("ssd", "pcg", "mtp")


def dry(*arguments: str) -> list[str]:
    """Lines that the script would run."""
    done = subprocess.run(
        [ROOT / "scripts/paper.sh", *arguments],
        env={**os.environ, "DRY": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def made(paper: str, launch: str, scoring: str = "") -> list[str]:
    """Lines of make for a paper's tables."""
    given = [f"LAUNCH={launch}", f"SCORING={scoring}"]
    return said(paper, "SCALE=paper", *given).splitlines()


def programs(lines: list[str]) -> list[str]:
    """What composes, by its program; a launcher's settings are Hydra's, and looked at apart."""
    plain = [re.sub(r" hydra[/.]launcher\S*", "", line) for line in commands(lines)]
    return [compose(line)[0] for line in plain]


@pytest.mark.parametrize("paper", PAPERS)
def test_by_ray_each_step_composes_and_asks_for_ray(paper: str) -> None:
    *before, tables = dry(paper, "ray")
    first, *trainings = programs(before)
    assert first == "sst-prepare"
    assert any(one.startswith("sst-train") for one in trainings)
    assert "cluster=ray cluster.address=auto cluster.num_gpus=1" in before[0]
    launch, scoring = re.fullmatch(
        rf"make {paper} SCALE=paper LAUNCH=(.*) SCORING=(.*)", tables
    ).groups()  # type: ignore[union-attr]
    lines = made(paper, launch, scoring)
    found = programs(lines)
    assert {"sst-decode", "sst-eval", "sst-report"} <= set(found)
    assert found[-2:] == ["sst-eval", "sst-report"]
    assert all(launch in line for line in lines if "sst-decode" in line)
    assert all(scoring in line for line in lines if "sst-eval" in line)
    assert decode.main([*launch.split(), "--cfg", "hydra", "-p", "hydra.launcher"]) == 0


@pytest.mark.parametrize("paper", PAPERS)
def test_by_slurm_each_step_waits_for_the_one_before(paper: str) -> None:
    jobs = [shlex.split(line.replace("$SLURM_ARRAY_TASK_ID", "3")) for line in dry(paper, "slurm")]
    assert {job[0] for job in jobs} == {"sbatch"}
    waits = [one for job in jobs for one in job if one.startswith("--dependency")]
    assert waits == [f"--dependency=afterok:{number}" for number in range(1, len(jobs))]
    assert jobs[0][1].startswith("--array=0-63")
    wrapped = [job[-1] for job in jobs]
    ours = programs(wrapped)
    assert len(ours) == len(wrapped) - 1  # the last is make's
    assert ours[0] == "sst-prepare"
    launch = shlex.split(wrapped[-1])[-1].removeprefix("LAUNCH=")
    assert all(launch in line for line in made(paper, launch) if "sst-decode" in line)
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher", reason="extra cluster")
    assert decode.main([*launch.split(), "--cfg", "hydra", "-p", "hydra.launcher"]) == 0


def test_mistakes_are_told() -> None:
    for arguments in (("ssd",), ("ssd", "cloud"), ("best", "ray")):
        done = subprocess.run(
            [ROOT / "scripts/paper.sh", *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        assert re.search(r"give ray or slurm|none of", done.stderr), done.stderr
