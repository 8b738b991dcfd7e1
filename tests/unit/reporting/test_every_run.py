"""`paper=runs`: every scored run of a sweep is a row, whatever the papers' tables ask for."""

import json
from pathlib import Path

import pytest
from csv_rows import by_key
from shipped import read_csv
from synthetic_runs import FINE, make_run

from speculative_tts.commands.report import main
from speculative_tts.reporting.page import read_sections


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Tolerances that no paper's table has, and the target alone."""
    make_run(tmp_path / "runs", "target", n=12)
    for beta in (0.55, 0.85):
        make_run(tmp_path / "runs", "speculative", rule="tolerance", beta=beta, n=12)
    return tmp_path


def test_every_scored_run_is_a_row(sweep: Path) -> None:
    assert main([f"runs={sweep / 'runs'}", f"out={sweep / 'out'}", "paper=runs"]) == 0
    names = {path.name for path in (sweep / "runs").iterdir()}
    rows = by_key(sweep / "out" / "runs" / "runs.csv")
    assert set(rows) == names
    for name, row in rows.items():
        summary = json.loads((sweep / "runs" / name / "summary.json").read_text())
        assert float(row["wer"]) == pytest.approx(100 * summary["metrics"]["wer"]["value"], 1e-4)
        assert row["wer_low"]
        assert bool(row["wer_minus_" + next(n for n in names if n[:6] == "target")]) is (
            not name.startswith("target")
        )
    section = read_sections(sweep / "out" / "index.html")["runs"]
    assert len(section["systems"]) == 3
    assert {one["key"] for one in section["points"] if one["drawn"]} == names


def test_runs_that_differ_in_target_or_sampler_say_so(tmp_path: Path) -> None:
    """Rows of two samplers had one name, and were compared with the target of one of them."""
    runs, cold = tmp_path / "runs", {"sampling": {"temperature": 0.8, "top_k": 0}}
    make_run(runs, "target", n=12)
    make_run(runs, "reference", n=12, sampling={}, target={})
    for given in ({}, cold, {**cold, **FINE}):
        make_run(runs, "speculative", n=12, **given)
    assert main([f"runs={runs}", f"out={tmp_path / 'out'}", "paper=runs"]) == 0
    rows = {row["system"]: row for row in read_csv(tmp_path / "out" / "runs" / "runs.csv")}
    name, warm = "speculative-exact-b0-k3-s0", "temperature 1, top k 25"
    compared = {f"{name}, target=tiny, {warm}", "reference-s0"}
    assert set(rows) == compared | {
        f"target-s0, target=tiny, {warm}",
        f"{name}, target=tiny, temperature 0.8, all codes",
        f"{name}, target=tiny_fine, temperature 0.8, all codes",
    }
    delta = next(key for key in rows["reference-s0"] if key.startswith("wer_minus_target-s0"))
    assert {system for system, row in rows.items() if row[delta]} == compared


def test_runs_that_no_papers_table_takes_are_counted_or_shown(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sweep of one's own stood in no table, without a message."""
    assert main([f"runs={sweep / 'runs'}", f"out={sweep / 'out'}", "paper=ssd"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if "2 of 3 scored runs are in no table of paper=ssd" in line]
    assert said[-1] == f"open {sweep / 'out' / 'index.html'} in a browser"
    other = [f"runs={sweep / 'runs'}", f"out={sweep / 'other'}", "paper=drafters"]
    assert main(other) == 0
    assert set(read_sections(sweep / "other" / "index.html")) == {"runs"}
    assert main([*other, "strict=true"]) == 3
