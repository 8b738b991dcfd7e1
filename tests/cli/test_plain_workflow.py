"""The commands as they are typed first, in a clone: what ships there must stay as it was."""

import shutil
import subprocess
from pathlib import Path

import pytest

from speculative_tts.bench import engine, search
from speculative_tts.commands import bench, decode, report
from speculative_tts.commands import eval as evaluate

ROOT = Path(__file__).parents[2]
AS_THE_AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *AS_THE_AUTHOR, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the files that this one tracks, weights and recordings left out."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("no git checkout")
    folder = tmp_path / "clone"
    for name in filter(None, listed.stdout.split("\0")):
        if not name.startswith(("speculative_tts/assets", "tests")) and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "as cloned")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.whole
@pytest.mark.slow
def test_the_plain_workflow_changes_no_tracked_file(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decode, eval and report rewrote 9 tracked files (12,078 lines), bench its tables."""
    monkeypatch.setattr(search, "PATH_SEARCH", ((50,), 2, 3))
    monkeypatch.setattr(engine, "GROUP_RULE", (50, 3, 2, 1))
    assert decode.main(["method=ssd", "limit=2", "instrument=1", "runtime.warmup=0"]) == 0
    assert evaluate.main(["metrics=[wer]", "workers=1", "draws=100"]) == 0
    assert report.main([]) == 0
    assert evaluate.main(["metrics=[wer]", "workers=1", "draws=100"]) == 0  # tables are no run
    assert bench.main(["limit=1", "tokens=2", "steps=1", "draws=10", "transformers=false"]) == 0
    assert list((clone / "runs" / "results" / "ssd").glob("*.md"))
    assert (clone / "runs" / "bench" / "tiny.md").is_file()
    assert git(clone, "status", "--porcelain") == ""


@pytest.mark.parametrize("command", [bench.main, decode.main, evaluate.main, report.main])
def test_results_are_written_where_git_does_not_look(clone: Path, command: object) -> None:
    out = command.compose().out or "runs"  # type: ignore[attr-defined]
    (clone / out / "new").mkdir(parents=True)
    (clone / out / "new" / "table.md").write_text("")
    assert git(clone, "status", "--porcelain") == ""
