"""scripts/keep_runs.py: what ships of scored runs, so that others can compute a table's cells."""

import gzip
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from keep_runs import keep
from synthetic_runs import make_run

from speculative_tts.assets import TINY
from speculative_tts.evaluation.rows import ScoreRow, read_row
from speculative_tts.records import read_jsonl, write_jsonl

PROMPT = "testset/prompts/test-slt_f100_p100-prompt.flac"


def change(path: Path, **columns: Any) -> None:
    write_jsonl(path, [row | columns for row in read_jsonl(path)])


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two scored runs, whose prompts are shipped assets."""
    for system in ("target", "speculative"):
        run = make_run(tmp_path / "runs", system, n=3)
        change(run / "records.jsonl", prompt_audio=str(TINY / PROMPT))
        change(run / "scores.jsonl", audio="audio/utt.wav")
    return tmp_path / "runs"


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def test_every_run_keeps_its_rows_and_no_path_of_this_machine(runs: Path, tmp_path: Path) -> None:
    written = keep(tmp_path / "out", [runs])
    assert {str(path.relative_to(tmp_path / "out")) for path in written} == {
        f"{kind}/{run.name}.jsonl.gz" for run in runs.iterdir() for kind in ("scores", "records")
    }
    for run in runs.iterdir():
        scores, records = (
            rows(tmp_path / "out" / kind / f"{run.name}.jsonl.gz") for kind in ("scores", "records")
        )
        assert scores == list(read_jsonl(run / "scores.jsonl"))
        assert all(isinstance(read_row(row), ScoreRow) for row in scores)
        assert {row["prompt_audio"] for row in records} == {f"tiny:{PROMPT}"}


def test_a_file_of_the_working_directory_is_named_from_there(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registered list, which sst-prepare makes in data/, could not be kept."""
    monkeypatch.chdir(tmp_path)
    for run in runs.iterdir():
        change(run / "records.jsonl", prompt_audio=str(tmp_path / "data/own/prompt.flac"))
    records = [path for path in keep(tmp_path / "out", [runs]) if path.parent.name == "records"]
    assert {row["prompt_audio"] for path in records for row in rows(path)} == {
        "data/own/prompt.flac"
    }


def test_the_same_rows_give_the_same_bytes(runs: Path, tmp_path: Path) -> None:
    """A compressed file that said when it was written would change with every `make records`."""
    first = [path.read_bytes() for path in keep(tmp_path / "first", [runs])]
    moved = shutil.copytree(runs, tmp_path / "moved", copy_function=shutil.copyfile)
    os.utime(next(moved.glob("*/scores.jsonl")), (0, 0))
    assert [path.read_bytes() for path in keep(tmp_path / "second", [moved])] == first


def test_scores_alone_are_kept_of_a_folder_that_asks_for_them(runs: Path, tmp_path: Path) -> None:
    """Codes are three quarters of what ships; scores and counts give every cell of a table."""
    more = make_run(tmp_path / "more", "target", seed=1, n=3)
    change(more / "scores.jsonl", audio="audio/utt.wav")
    written = keep(tmp_path / "out", [runs], [more.parent])
    of_it = [path.parent.name for path in written if path.name == f"{more.name}.jsonl.gz"]
    assert of_it == ["scores"]
    assert len(written) == 5


def test_files_of_other_runs_go(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "scores").mkdir(parents=True)
    (out / "scores" / "target-s0-00000bad.jsonl.gz").touch()
    (out / "scores" / "README.md").touch()
    written = keep(out, [runs])
    assert {*out.rglob("*.*")} == {*written, out / "scores" / "README.md"}


def test_a_path_in_the_working_directory_is_from_there(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list that was spoken into runs/ has prompts there, and its runs could not be kept."""
    monkeypatch.chdir(tmp_path)
    (run, *_) = sorted(runs.iterdir())
    change(run / "records.jsonl", prompt_audio=str(tmp_path / "runs/list/slt.flac"))
    keep(tmp_path / "out", [runs])
    (first, *_) = rows(tmp_path / "out" / "records" / f"{run.name}.jsonl.gz")
    assert first["prompt_audio"] == "runs/list/slt.flac"


def test_an_absolute_path_is_refused(runs: Path, tmp_path: Path) -> None:
    (run,) = runs.glob("target*")
    change(run / "records.jsonl", reference_audio="/data/own.flac")
    with pytest.raises(ValueError, match=r"reference_audio=/data/own\.flac is absolute"):
        keep(tmp_path / "out", [runs])
    assert not (tmp_path / "out").exists()


def test_a_run_without_scores_is_named(runs: Path, tmp_path: Path) -> None:
    (run,) = runs.glob("target*")
    (run / "summary.json").unlink()
    with pytest.raises(ValueError, match=f"{run.name}: not scored; sst-eval"):
        keep(tmp_path / "out", [runs])
