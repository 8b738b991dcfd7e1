"""scripts/gpu_table.py: what it says of runs on a GPU beside the CPU's."""

import json
from dataclasses import replace
from pathlib import Path

import gpu_table
import pytest
from scored_runs import record

from speculative_tts.records import DecodeRecord, to_row
from speculative_tts.runs.folder import RECORDS, mark_done

UNTIMED = {"lm_seconds": None, "baseline_seconds": None, "baseline_tokens": None}
RECORD = record("a", codes=[1, 2], tokens=3, **UNTIMED)


def save(folder: Path, *records: DecodeRecord, done: bool = True) -> None:
    folder.mkdir(parents=True)
    lines = [json.dumps(to_row(record)) for record in records]
    (folder / RECORDS).write_text("\n".join(lines) + "\n")
    if done:
        mark_done(folder)


def timed(id_: str, seconds: float, alone: float) -> DecodeRecord:
    clock = {"lm_seconds": seconds, "baseline_seconds": alone, "baseline_tokens": 3}
    return replace(RECORD, id=id_, **clock)


def test_speeds_stand_beside_each_other_and_tokens_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    save(runs / "gpu" / "exact-01234567", timed("a", 0.01, 0.02), timed("b", 0.01, 0.02))
    save(runs / "cpu" / "exact-89abcdef", timed("a", 0.1, 0.1), timed("b", 0.1, 0.1))
    other = replace(RECORD, id="b", codes=[1, 3])
    save(runs / "float32" / "exact-00000000", RECORD, other)
    save(runs / "gpu" / "ssd-00000001", timed("a", 0.01, 0.02), done=False)
    gpu_table.main(runs, tmp_path / "out")
    rows = json.loads((tmp_path / "out" / "gpu_decode.json").read_text())["rows"]
    assert rows == [
        {"system": "exact", "gpu": [300.0, 2.0], "cpu": [30.0, 1.0], "same_tokens": [1, 2]}
    ]
    assert "| exact | 300 | 30 | 2.00 | 1.00 | 1 of 2 |" in capsys.readouterr().out


def test_what_was_not_measured_is_left_out(tmp_path: Path) -> None:
    save(tmp_path / "gpu" / "target-01234567", replace(RECORD, lm_seconds=0.01))
    gpu_table.main(tmp_path, tmp_path / "out")
    assert "| target | 300 |  |  |  |  |" in (tmp_path / "out" / "gpu_decode.md").read_text()


def test_without_a_run_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no finished run; make them with `make gpu`"):
        gpu_table.main(tmp_path, tmp_path / "out")
