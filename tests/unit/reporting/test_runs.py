"""Which runs a table takes, and what it says when they are not there."""

import json
from pathlib import Path

import pytest
from synthetic_runs import make_run

from speculative_tts.reporting.needs import Need, choose, figure
from speculative_tts.reporting.runs import Run, find_runs

TARGET = Need("Target alone", {"system": "target"})
SSD = Need(
    "SSD", {"system": "speculative", "rule.name": "tolerance", "rule.beta": 0.4, "lookahead": 3}
)
NEEDS = {"target": TARGET, "ssd": SSD}


def ssd(runs: Path, **other: object) -> Path:
    return make_run(runs, "speculative", rule="tolerance", beta=0.4, n=4, **other)  # type: ignore[arg-type]


def test_no_folder_and_no_runs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is not a folder; run sst-decode"):
        find_runs(tmp_path / "none")
    with pytest.raises(ValueError, match=r"holds no run; run sst-decode out="):
        find_runs(tmp_path)


def test_models_beside_runs_are_no_runs(tmp_path: Path) -> None:
    """A trained draft and an export were called runs that have not finished."""
    model = tmp_path / "draft" / "config.json"
    model.parent.mkdir()
    model.write_text(json.dumps({"model_type": "qwen2"}))
    with pytest.raises(ValueError, match=r"holds no run"):
        find_runs(tmp_path)
    run = make_run(tmp_path, "target", n=4)
    found = find_runs(tmp_path)
    assert [one.name for one in found.runs] == [run.name]
    assert found.unusable == {}
    alone = find_runs(run)  # "holds no run" was said of a run, which sst-eval takes
    assert [one.name for one in alone.runs] == [run.name]


def test_a_missing_run_names_the_command_that_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path / "runs", "target", n=4)
    monkeypatch.chdir(tmp_path)
    (missing,) = choose(find_runs(tmp_path / "runs"), NEEDS, "ssd/table1").missing
    text = (
        "SSD: sst-decode system=speculative rule=tolerance rule.beta=0.4 lookahead=3 "
        "out=runs, then sst-eval runs=runs"
    )
    assert str(missing) == text
    monkeypatch.chdir("/")
    monkeypatch.setattr(Path, "cwd", lambda: tmp_path / "elsewhere")
    (missing,) = choose(find_runs(tmp_path / "runs"), NEEDS, "ssd/table1").missing
    assert str(missing) == text.replace("=runs", "=<folder>/runs")


def test_the_command_repeats_what_the_other_runs_have(tmp_path: Path) -> None:
    make_run(tmp_path, "target", n=4, limit=40)
    (missing,) = choose(find_runs(tmp_path), NEEDS).missing
    assert " limit=40 out=" in missing.command


def test_unfinished_and_unscored_runs_are_told(tmp_path: Path) -> None:
    unscored = make_run(tmp_path, "target", n=4, scored=False)
    (make_run(tmp_path, "draft", n=4) / "DONE").unlink()
    stale = make_run(tmp_path, "codec", n=4)
    summary = json.loads((stale / "summary.json").read_text())
    (stale / "summary.json").write_text(json.dumps(summary | {"run": {"complete": False}}))
    found = find_runs(tmp_path)
    assert not found.runs
    reasons = " ".join(found.unusable.values())
    assert f"not scored; sst-eval runs={unscored}" in reasons
    assert "not finished" in reasons
    assert "scored before it was finished" in reasons


def test_contexts_are_not_mixed(tmp_path: Path) -> None:
    """A run over 10 utterances must not stand beside one over all of them."""
    make_run(tmp_path, "target", n=4)
    make_run(tmp_path, "target", n=2, limit=2)
    ssd(tmp_path, limit=2)
    selection = choose(find_runs(tmp_path), NEEDS)
    assert {run.config["limit"] for run in selection.runs} == {2}
    assert selection.remarks == ("target-s0-00000000 left out: limit=None",)


def test_the_target_does_not_depend_on_the_draft(tmp_path: Path) -> None:
    make_run(tmp_path, "target", n=4)
    ssd(tmp_path, draft={"name": "other", "path": "runs/draft"})
    selection = choose(find_runs(tmp_path), NEEDS)
    assert set(selection.results) == {"target", "ssd"}


def test_seeds_are_gathered_and_the_newest_of_a_seed_is_taken(tmp_path: Path) -> None:
    make_run(tmp_path, "target", seed=1, n=4)
    make_run(tmp_path, "target", seed=0, n=4, date="2026-01-01")
    make_run(tmp_path, "target", seed=0, n=4, date="2026-02-01", instrument=5)
    selection = choose(find_runs(tmp_path), {"target": TARGET})
    runs = selection.results["target"].seeds
    assert [run.seed for run in runs] == [0, 1]
    assert runs[0].provenance["date"] == "2026-02-01"
    assert selection.remarks == ("target-s0-00000000 left out: a newer run has its seed",)


def test_other_weights_are_another_context(tmp_path: Path) -> None:
    for date, weights in (("2026-01-01", "aa"), ("2026-02-01", "bb")):
        folder = make_run(tmp_path, "target", n=4, instrument=len(date) + ord(weights[0]))
        provenance = json.loads((folder / "provenance.json").read_text())
        changed = provenance | {"date": date, "weights": {"target": weights}}
        (folder / "provenance.json").write_text(json.dumps(changed))
    selection = choose(find_runs(tmp_path), {"target": TARGET})
    assert len(selection.results["target"].seeds) == 1
    assert "weights.target=" in selection.remarks[0]


@pytest.mark.parametrize(
    ("speeds", "mean"), [([1.2, 1.4], 1.3), ([1.2, None], 1.2), ([None], None)]
)
def test_untimed_seeds_leave_the_speed_to_the_timed_ones(
    speeds: list[float | None], mean: float | None
) -> None:
    """A search for an equal clock found nothing once further seeds were decoded untimed."""
    summaries = [{"metrics": {"speedup": {"value": speed}}} for speed in speeds]
    runs = [Run(Path("run"), {"seed": i}, one, {}) for i, one in enumerate(summaries)]
    assert figure(runs, "speedup") == (None if mean is None else pytest.approx(mean))
