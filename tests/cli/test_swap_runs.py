"""system=swap as a user runs it: from the target's run to scores."""

from pathlib import Path

import pytest
from fake_models import FakeModels
from run_records import records

from speculative_tts.commands.decode import main as decode


@pytest.fixture
def common(models: FakeModels, tmp_path: Path) -> list[str]:
    return [*models.overrides, f"out={tmp_path / 'runs'}", "limit=2", "runtime.warmup=0"]


@pytest.fixture
def swapping(common: list[str], tmp_path: Path) -> list[str]:
    return [*common, "method=swap", f"rule.groups.cache={tmp_path / 'caches'}"]


def test_it_finds_the_targets_run_and_swaps_its_tokens(
    common: list[str], swapping: list[str], tmp_path: Path
) -> None:
    assert decode([*common, "method=target"]) == 0
    assert decode([*swapping, "rule.groups.mean_size=1,8"]) == 0
    (target,) = (tmp_path / "runs").glob("target-*")
    (swapped,) = (tmp_path / "runs").glob("swap-m8-s0-*")
    plain = [row["codes"] for row in records(tmp_path / "runs", "target-*")]
    alone = records(tmp_path / "runs", "swap-m1-s0-*")
    assert [row["codes"] for row in alone] == plain
    assert all(row["swapped"] == 0 for row in alone)
    found = records(tmp_path / "runs", "swap-m8-s0-*")
    assert [len(row["codes"]) for row in found] == [len(codes) for codes in plain]
    assert [row["codes"] for row in found] != plain
    assert all(0 < row["swapped"] <= row["tokens"] for row in found)
    assert all((swapped / str(row["audio"])).is_file() for row in found)
    assert decode([*swapping, "rule.groups.mean_size=8", f"source={target}"]) == 0
    (given,) = (path for path in (tmp_path / "runs").glob("swap-m8-*") if path != swapped)
    assert [row["codes"] for row in records(given.parent, given.name)] == [
        row["codes"] for row in found
    ]


def test_mistakes_are_one_line(
    common: list[str], swapping: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert decode(swapping) == 2
    assert "system=swap needs the target's, made by sst-decode" in capfd.readouterr().err
    assert decode([*common, "system=swap", "rule=exact"]) == 2
    assert "swaps within groups, and rule is exact; give rule=group" in capfd.readouterr().err
    assert decode([*common, "method=draft"]) == 0
    (draft,) = (tmp_path / "runs").glob("draft-*")
    assert decode([*swapping, f"source={draft}"]) == 2
    assert "is a run of system=draft, not of the target" in capfd.readouterr().err
