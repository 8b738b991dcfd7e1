"""sst-precompute, and the group rule from the command line."""

import json
from pathlib import Path

import pytest
from fake_models import FakeModels
from run_records import records

from speculative_tts.commands.decode import main as decode
from speculative_tts.commands.precompute import main as precompute
from speculative_tts.runs.naming import run_name, settings


def options(models: FakeModels, *keys: str) -> list[str]:
    return [o for o in models.overrides if o.partition(".")[0] in keys]


def test_it_prints_sizes_and_finds_them_again(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*options(models, "target", "codec"), f"groups.cache={tmp_path}", "threads=1"]
    for _ in range(2):
        assert precompute([*arguments, "groups.mean_size=4"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == second
    assert {"theta", "groups", "mean_size", "median_size", "max_size", "singletons", "bytes"} <= (
        first.keys()
    )
    assert len(list(tmp_path.iterdir())) == 1


def test_decode_by_groups_makes_what_it_needs_and_says_so(
    models: FakeModels, tmp_path: Path
) -> None:
    groups = [f"rule.groups.cache={tmp_path / 'caches'}", "rule.groups.mean_size=5"]
    common = [*models.overrides, f"out={tmp_path / 'runs'}", "limit=2", "runtime.warmup=0"]
    assert decode([*common, "rule=group", *groups]) == 0
    (run,) = (tmp_path / "runs").glob("spec*")
    assert run.name.startswith("speculative-group-m5-k3-s0-")
    facts = json.loads((run / "provenance.json").read_text())["groups"]
    assert facts["mean_size"] == pytest.approx(5, rel=0.15)
    rows = records(tmp_path / "runs")
    assert sum(row["rounds"] for row in rows) > 0
    for split in (row["split"] for row in rows):
        assert sum(split["positions"]) >= sum(split["expected_trials"]) > 0
        assert sum(split["expected_trials"]) > sum(split["expected_rejections"]) > 0


def test_the_default_size_written_out_is_the_same_run(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = ["rule=group", f"rule.groups.cache={tmp_path / 'caches'}", "instrument=0"]
    common = [*models.overrides, f"out={tmp_path / 'runs'}", "limit=1", "runtime.warmup=0"]
    assert decode([*common, *groups]) == decode([*common, *groups, "rule.groups.mean_size=10"]) == 0
    assert "done already, skipped" in capsys.readouterr().out
    (run,) = (tmp_path / "runs").glob("spec*")
    assert json.loads((run / "config.json").read_text())["rule"]["groups"]["mean_size"] == 10


def test_options_of_groups_make_another_run_only_by_groups() -> None:
    """Nor does a mean size beside a theta, which it does not decide."""
    names = {
        run_name(decode.compose(["rule=group", *options]))
        for options in ([], ["rule.groups.mean_size=10"], ["rule.groups.cache=elsewhere"])
    }
    assert len(names) == 1
    assert "groups" not in settings(decode.compose(["rule=exact"]))["rule"]
    given = decode.compose(["rule=group", "rule.groups.theta=0.5"])
    assert settings(given)["rule"]["groups"]["mean_size"] is None
