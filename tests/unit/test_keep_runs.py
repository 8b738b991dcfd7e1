"""scripts/keep_runs.py: what ships of scored runs, so that others can compute a table's cells."""

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
from speculative_tts.runs.archive import read_archive

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


def test_every_run_keeps_its_rows_and_no_path_of_this_machine(runs: Path, tmp_path: Path) -> None:
    written = keep(tmp_path / "out", [runs])
    paths = [tmp_path / "out" / f"{kind}.jsonl.xz" for kind in ("scores", "records")]
    assert written == dict.fromkeys(paths, 2)
    scores, records = map(read_archive, paths)
    for run in runs.iterdir():
        assert scores[run.name] == list(read_jsonl(run / "scores.jsonl"))
        assert all(isinstance(read_row(row), ScoreRow) for row in scores[run.name])
        assert {row["prompt_audio"] for row in records[run.name]} == {f"tiny:{PROMPT}"}


def test_a_file_of_the_working_directory_is_named_from_there(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists that were made in data/ or spoken into runs/ could not be kept."""
    monkeypatch.chdir(tmp_path)
    for run in runs.iterdir():
        change(run / "records.jsonl", prompt_audio=str(tmp_path / "data/own/prompt.flac"))
    _, records = map(read_archive, keep(tmp_path / "out", [runs]))
    assert {row["prompt_audio"] for of in records.values() for row in of} == {
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
    assert [more.name in read_archive(path) for path in written] == [True, False]
    assert [*written.values()] == [3, 2]


def test_other_runs_go(runs: Path, tmp_path: Path) -> None:
    """A run whose settings changed left scores of its old name behind."""
    out, (first, other) = tmp_path / "out", sorted(runs.iterdir())
    keep(out, [runs])
    shutil.rmtree(other)
    assert [[*read_archive(path)] for path in keep(out, [runs])] == [[first.name]] * 2
    keep(out, [], [runs])
    assert [path.name for path in out.iterdir()] == ["scores.jsonl.xz"]


def test_runs_are_added_to_those_that_are_kept(runs: Path, tmp_path: Path) -> None:
    """All runs of a folder had to be decoded again so that one could be added."""
    out = tmp_path / "out"
    before = [read_archive(path) for path in keep(out, [runs])]
    more = make_run(tmp_path / "more", "target", seed=1, n=3)
    change(more / "scores.jsonl", audio="audio/utt.wav")
    after = [read_archive(path) for path in keep(out, [out, more.parent])]
    assert [{*now} - {*was} for was, now in zip(before, after, strict=True)] == [{more.name}] * 2
    assert all(was.items() <= now.items() for was, now in zip(before, after, strict=True))


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
