"""`make reproduce SCALE=paper` on shrunken checkpoints, from preflight to tables, on a CPU.

Offline judges hear what the papers' would; everything else is what runs at full size.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_tables import blocks
from paper_models import write_lists, write_models, write_stand_ins

from speculative_tts.reporting.experiments import PAPERS_OWN
from speculative_tts.reporting.shown import REPORTS

ROOT = Path(__file__).parents[2]
TINYS_WORDS = re.compile(r"\b(tiny|flite|word grammar|4 layers|35 words)\b")
JUDGED = ("WER %, pocketsphinx", "SIM, GE2E", "SIM to other", "DNSMOS, P.808")
SHORT = "instrument=1 runtime.warmup=0 sampling.max_tokens_per_word=6"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("paper_scale")
    write_models(root)
    write_lists(root)
    write_stand_ins(root / "packages")
    return root


def reproduce(root: Path, paper: str) -> subprocess.CompletedProcess[str]:
    """What a user types, in the folder that holds models/ and data/."""
    venv = Path(sys.prefix)
    make = ["make", "-f", str(ROOT / "Makefile"), "-o", str(venv / ".installed"), f"VENV={venv}"]
    options = ["SCALE=paper", f"MODELS={root / 'models'}", "DEVICE=cpu", "JUDGES=offline"]
    path = os.pathsep.join([str(root / "packages"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [*make, "reproduce", f"PAPERS={paper}", *options, f"GIVEN=limit=2 {SHORT}"],
        cwd=root,
        env=os.environ | {"PYTHONPATH": path.rstrip(os.pathsep), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "paper",
    [pytest.param("ssd", marks=[pytest.mark.slow, pytest.mark.whole])]
    + [pytest.param(name, marks=pytest.mark.full) for name in ("pcg", "mtp")],
)
def test_from_preflight_to_tables(root: Path, paper: str) -> None:
    done = reproduce(root, paper)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    assert "missing:" not in done.stdout + done.stderr
    folder = root / "runs/results/paper" / paper / paper
    pages = {path.stem: path.read_text() for path in folder.glob("*.md")}
    assert not {name: found for name, text in pages.items() if (found := TINYS_WORDS.search(text))}
    tables = [table for name in pages if name.startswith("table") for table in blocks(pages[name])]
    judged = [(h, cells) for table in tables for h, cells in table.items() if h.startswith(JUDGED)]
    assert len(judged) > 5
    assert not [heading for heading, cells in judged if "-" in cells]
    assert sum(map(beside_the_papers, tables)) > 10
    for table in tables:
        assert [c == "-" for c in table.get("LM-RTF, here", ())] == [
            c == "-" for c in table.get("end-to-end RTF", ())
        ]
    shown = {cell for table in tables for h, cs in table.items() if ", paper" in h for cell in cs}
    for table in REPORTS[paper](PAPERS_OWN).tables:
        for row in table.paper.rows.values() if not table.heard else ():
            assert {*row.values()} - {"-"} <= shown, table.paper.source


def beside_the_papers(table: dict[str, list[str]]) -> int:
    """How many of the paper's figures stand beside one of ours, in columns that were measured."""
    count = 0
    for heading, printed in table.items():
        name, _, of_paper = heading.partition(", ")
        ours = [cells for key, cells in table.items() if key.partition(", ")[0] == name]
        if of_paper.startswith("paper") and set(ours[0]) != {"-"} and ours[0] is not printed:
            figures = [own for own, theirs in zip(ours[0], printed, strict=True) if theirs != "-"]
            assert "-" not in figures, (heading, ours[0], printed)
            count += len(figures)
    return count
