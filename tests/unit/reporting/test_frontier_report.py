"""Every rule with every drafter: each row and point at the settings that it names."""

from pathlib import Path
from typing import Any

import pytest
from csv_rows import by_key
from shipped import read_csv
from synthetic_runs import FINE, config_of, groups_of, make_run, write_run

from speculative_tts.commands.report import main
from speculative_tts.reporting.needs import Need, choose
from speculative_tts.reporting.runs import find_runs

TYPICAL = {"epsilon": 0.3, "alpha": 0.09}


def speculated(runs: Path, name: str, rule: str, strength: float, **own: Any) -> None:
    """A run of a rule with its own settings."""
    config = config_of("speculative", rule, 0.0, 3, 0, **FINE)
    config["rule"] = {"name": rule, **own}
    write_run(runs / name, config, strength, n=12)


def lengths(path: Path) -> dict[str, str]:
    """Return the acceptance length of each row of a table."""
    return {key: row["acceptance_length"] for key, row in by_key(path).items()}


@pytest.mark.parametrize("asked", [{}, {"rule.epsilon": 0.3}])
def test_what_a_need_leaves_open_of_a_rule_is_as_the_rule_is_set(
    tmp_path: Path, asked: dict[str, float]
) -> None:
    """Of two thresholds in one folder the newer, or the later by name, was taken."""
    speculated(tmp_path, "usual", "typical", 0.1, **TYPICAL)
    speculated(tmp_path, "wider", "typical", 0.4, **TYPICAL | {"alpha": 0.5})
    need = Need("typical", {"rule.name": "typical", **asked})
    (run,) = choose(find_runs(tmp_path), {"typical": need}).results["typical"].seeds
    assert run.name == "usual"
    named = Need("typical", {**need.where, "rule.alpha": 0.5})
    (run,) = choose(find_runs(tmp_path), {"typical": named}).results["typical"].seeds
    assert run.name == "wider"


def test_a_run_from_before_a_setting_came_counts(tmp_path: Path) -> None:
    speculated(tmp_path, "old", "exact", 0.0)
    speculated(tmp_path, "by-blocks", "exact", 0.4, block=True)
    need = Need("exact", {"rule.name": "exact"})
    (run,) = choose(find_runs(tmp_path), {"exact": need}).results["exact"].seeds
    assert run.name == "old"


def test_sweeps_in_the_same_folder_are_other_points(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row of SSD was of whatever β came last, one of PCG of whatever size."""
    runs, out = tmp_path / "runs", tmp_path / "out"
    make_run(runs, "target", n=12, **FINE)
    make_run(runs, "speculative", n=12, **FINE)
    for beta in (0.1, 0.3, 0.4):
        make_run(runs, "speculative", rule="tolerance", beta=beta, n=12, **FINE)
    for size, strength in ((4.5, 0.2), (10.0, 0.35), (140.0, 0.6)):
        parts: dict[str, Any] = {"rule": "group", "groups": groups_of(size), "n": 12, **FINE}
        make_run(runs, "speculative", beta=strength, **parts)
    speculated(runs, "typical", "typical", 0.3, **TYPICAL)
    layer = {"name": "recurrent", "dtype": "int8", "codes": None}
    few = layer | {"dtype": "bfloat16", "codes": 1024}
    for name, drafter, strength in (("layer", layer, 0.5), ("few", few, 0.25)):
        config = config_of("speculative", "exact", 0.0, 3, 0, drafter=drafter, **FINE)
        write_run(runs / name, config, strength, n=12)
    for mode, strength in (("none", 0.1), ("sample", 0.3)):
        heads = {"drafter": {"name": "heads"}, "viterbi": {"mode": mode}}
        write_run(
            runs / mode, config_of("speculative", "exact", 0.0, 3, 0, **heads), strength, n=12
        )
    assert main([f"runs={runs}", f"out={out}", "paper=frontier", "strict=true"]) == 3
    told = capsys.readouterr().err
    assert "second model (and 26 more): sst-decode experiment=frontier target=tiny_fine " in told
    points = read_csv(out / "frontier" / "frontier.csv")
    words = [row for row in points if row["plot"] == "Word errors"]
    at = {(row["series"], row["tag"]): row["x"] for row in words}
    shown = {
        **{("SSD, β", f"{beta}"): beta for beta in (0.1, 0.3, 0.4)},
        **{("PCG, size", size): size for size in ("4.5", "10", "140")},
    }
    assert set(shown) | {("rules of others", "typical")} <= set(at)
    assert len({at[key] for key in shown}) == len(shown)
    rows, swept, small = (
        lengths(out / "frontier" / f"{name}.csv") for name in ("rules", "swept", "small_rules")
    )
    assert rows["tolerance lm"] == at["SSD, β", "0.4"]
    assert rows["group lm"] == at["PCG, size", "10"]
    assert float(rows["exact frequent"]) < float(rows["exact recurrent"])
    assert swept["rule.beta 0.4 lm"] == rows["tolerance lm"]
    assert swept["rule.groups.mean_size 140 lm"] == at["PCG, size", "140"]
    assert float(small["exact none heads"]) < float(small["exact sample heads"])
    assert "exact lm" not in small  # those above are the fine target's
    clock = {row["series"] for row in points if row["plot"] == "Word errors by the clock"}
    assert {series.partition(", ")[0] for series in clock} >= {"PCG", "SSD"}


def test_lookaheads_are_rows_and_points_of_their_own(tmp_path: Path) -> None:
    """Those of the target alone in the folder, as of the one that speaks any sentence."""
    runs, out, other = tmp_path / "runs", tmp_path / "out", {"target": {"name": "other"}}
    make_run(runs, "target", n=12, **other)
    for lookahead, beta in ((2, 0.0), (2, 0.4), (6, 0.4)):
        own: dict[str, Any] = {"rule": "tolerance", "lookahead": lookahead, "beta": beta}
        make_run(runs, "speculative", n=12, **own, **other)
    main([f"runs={runs}", f"out={out}", "paper=frontier", "page=false"])
    rows = lengths(out / "frontier" / "lookaheads.csv")
    assert len({rows["lm 0 2"], rows["lm 0.4 2"], rows["lm 0.4 6"]}) == 3
    assert not {"lm 0.4 3", "recurrent 0.4 6"} & set(rows)
    drawn = read_csv(out / "frontier" / "over_lookahead.csv")
    points = [row for row in drawn if row["plot"] == "Acceptance length"]
    assert {(row["series"], row["tag"]) for row in points} >= {
        ("second model, β 0", "2"),
        ("second model, β 0.4", "6"),
    }
    at = {(row["series"], row["tag"]): row["y"] for row in points}
    assert at["second model, β 0.4", "6"] == rows["lm 0.4 6"]
