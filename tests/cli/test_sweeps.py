"""Sweeps as users start them: every point runs, what fails is named, launchers are reached."""

from pathlib import Path
from typing import Any

import pytest
from hydra import compose
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from stub_decode import decode, run, seen

from speculative_tts.commands import app, composing
from speculative_tts.provenance import command_line
from speculative_tts.schema.decode import DecodeConfig

pytestmark = pytest.mark.usefixtures("stub_decode")


@pytest.mark.parametrize("lookahead", ["2", "2,3"])
def test_an_unwritable_output_folder_is_told_by_each_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lookahead: str
) -> None:
    (tmp_path / "file").touch()
    assert decode(["seed=4", f"lookahead={lookahead}", "out=file/runs"]) == app.BAD_INPUT
    errors = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert len(errors) == len(lookahead.split(","))
    reason = "output folder file/runs is not writable (not a directory)"
    assert all(f"{reason}; choose another with out=<path>" in line for line in errors)


def test_a_sweep_leaves_nothing_beside_its_runs(tmp_path: Path) -> None:
    """Hydra's `.sweep` lay there, also of a sweep that was refused."""
    assert decode(["seed=1,x", "out=runs"]) == app.BAD_INPUT
    assert decode(["seed=1,2", "out=runs"]) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seeds", [[3, 12, 1], [12, 12], [12, 1, 12], [12, 12, 12, 1]])
def test_a_sweep_runs_every_job_and_returns_the_largest_code(seeds: list[int]) -> None:
    """Also a point that is named again."""
    assert decode([f"seed={','.join(map(str, seeds))}"]) == 12
    assert [config.seed for config in seen] == seeds


def test_choices_of_a_sweep_are_composed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All before the first one runs: a mistake in the last is told at once."""
    composed: list[list[str]] = []

    def noted(name: str, overrides: list[str], **given: Any) -> Any:
        composed.append(overrides)
        return compose(name, overrides, **given)

    monkeypatch.setattr(composing, "_composed", {})
    monkeypatch.setattr("hydra.compose", noted)
    assert decode(["method=ssd,exact", "seed=20,21,22"]) == 22
    assert decode(["method=ssd", "seed=23"]) == 23
    assert composed == [["method=ssd"], ["method=exact"]]
    before = len(seen)
    assert decode(["method=ssd,exact,nothing"]) == 2
    assert len(seen) == before


def test_experiment_sweeps_by_itself() -> None:
    assert decode(["experiment=ssd/table3", "limit=5"]) == 0
    assert [config.rule.beta for config in seen] == [0.0, 0.1, 0.2, 0.3, 0.4]
    assert {config.rule.name for config in seen} == {"tolerance"}
    assert {config.limit for config in seen} == {5}


def test_all_points_are_composed_without_a_run() -> None:
    asked = ["experiment=ssd/table3", "seed=1,2"]
    made = decode.compose_sweep(asked)
    assert [(config.rule.beta, config.seed) for config in made[:3]] == [(0, 1), (0, 2), (0.1, 1)]
    assert len(made) == 10
    assert len(decode.compose_sweep([*asked, "hydra.mode=RUN"])) == 2
    assert seen == []
    with pytest.raises(ValueError, match="seed=x: seed takes a whole number"):
        decode.compose_sweep(["seed=1,x"])


def test_experiments_sweep_one_after_the_other() -> None:
    """Of several named together each ran once, at its defaults: Hydra reads the sweep of one."""
    typed: list[list[str]] = []

    def noting(config: DecodeConfig) -> int:
        typed.append(command_line())
        return run(config)

    main = app.command("decode", DecodeConfig, noting)
    assert main(["experiment=ssd/table3,ssd/groups", "limit=5"]) == 0
    assert [config.rule.name for config in seen] == ["tolerance"] * 5 + ["group"] * 4
    assert [config.rule.groups.mean_size for config in seen[5:]] == [4.5, 10, 40, 140]
    assert typed[5:] == [["sst-decode", "experiment=ssd/groups", "limit=5"]] * 4


@pytest.mark.parametrize("place", [0, 1, 2])
def test_settings_may_stand_on_both_sides_of_a_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: int
) -> None:
    """Those on one side were "unrecognized arguments"; what stood after it failed every job."""
    (tmp_path / "a=b" / "target").mkdir(parents=True)
    (tmp_path / "a=b" / "target" / "big.yaml").write_text("name: big\npath: /models/big\n")
    settings = ["target=big", "lookahead=1,2"]
    for flag in (["--config-dir", "a=b"], ["--config-dir=a=b"], ["-cd", "a=b"]):
        seen.clear()
        assert decode([*settings[:place], *flag, *settings[place:]]) == 0
        assert {config.target.path for config in seen} == {"/models/big"}
        assert [config.lookahead for config in seen] == [1, 2]
        assert "job 2 of 2" in capsys.readouterr().err


def test_a_failed_job_of_a_launcher_says_which_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job of another process came back as its exit code alone; its logs lay beside the runs."""
    (launcher,) = (one for one in Plugins.instance().discover(Launcher) if "Basic" in str(one))
    node = {"_target_": f"{launcher.__module__}.{launcher.__qualname__}"}
    ConfigStore.instance().store("another", group="hydra/launcher", node=node)
    assert decode(["seed=1,4", "lookahead=2,9", "hydra/launcher=another", "out=runs"]) == 0
    assert [(config.seed, config.lookahead) for config in seen] == [(1, 2), (1, 9), (4, 2), (4, 9)]
    out, err = capsys.readouterr()
    assert "all jobs are done; the launcher's folder has what they said" in out
    assert "job 4 of 4: seed=4 lookahead=9 " in err
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [".sweep"]
    assert decode(["seed=3,1", "hydra/launcher=another"]) == app.BAD_INPUT
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("sst-decode: a job failed: seed=3")
    assert "No such file" in told


def test_a_launcher_without_its_cluster_names_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without Slurm `hydra/launcher=submitit_slurm` ended in a traceback of submitit's."""
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert decode(["hydra/launcher=submitit_slurm", "seed=1,2"]) == app.BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert "hydra/launcher=submitit_local runs the jobs on this machine" in line


def test_a_launcher_that_is_not_installed_names_its_extra(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert decode(["hydra/launcher=joblib", "seed=1,2"]) == app.BAD_INPUT
    assert "pip install 'speculative_tts[cluster]'" in capsys.readouterr().err


def test_a_sweep_says_where_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of how many jobs, whatever is swept in an experiment's file and anew by the user."""
    ticks = iter([10.0, 10.0, 100.0, 310.0, 320.0, 330.0])
    monkeypatch.setattr(app, "monotonic", lambda: next(ticks))
    assert decode(["experiment=ssd/table3", "limit=2"]) == 0
    told = [line.partition(": rule.beta=")[0] for line in capsys.readouterr().err.splitlines()]
    assert told == [
        "sst-decode: job 1 of 5",
        "sst-decode: job 2 of 5, about 6 min left",
        "sst-decode: job 3 of 5, about 8 min left",
        "sst-decode: job 4 of 5, about 3 min left",
        "sst-decode: job 5 of 5, about 80 s left",
    ]
    monkeypatch.undo()
    assert decode(["experiment=ssd/table3", "rule.beta=0.5", "seed=1,2"]) == 0
    assert "job 2 of 2" in capsys.readouterr().err
    assert [config.rule.beta for config in seen[5:]] == [0.5, 0.5]


def test_a_glob_finds_the_names_of_choices() -> None:
    """It ended in `ConfigLoader is not set`."""
    assert decode(["rule=glob(to*)"]) == 0
    assert [config.rule.name for config in seen] == ["tolerance", "top"]
