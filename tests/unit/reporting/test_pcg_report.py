"""The PCG report from run folders: the search for one speed, tests over seeds, the swap test."""

import json
from pathlib import Path

import pytest
from csv_rows import by_key
from shipped import read_csv
from synthetic_runs import config_of, groups_of, make_pcg_runs, make_run, write_run

from speculative_tts.commands.report import main
from speculative_tts.reporting.experiments import TINY
from speculative_tts.reporting.fill_table import fill_table
from speculative_tts.reporting.needs import choose
from speculative_tts.reporting.runs import find_runs
from speculative_tts.reporting.shown import REPORTS

REPORT = REPORTS["pcg"](TINY)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("pcg") / "runs"
    make_pcg_runs(runs)
    out = runs.parent / "results"
    arguments = [f"runs={runs}", f"out={out}", "paper=pcg", "strict=true", "page=false"]
    assert main(arguments) == 0
    return out / "pcg"


def test_every_file_is_there(results: Path) -> None:
    tables = {f"{t.name}.{end}" for t in REPORT.tables for end in ("md", "csv", "tex")}
    figures = {
        f"{f.name}.{end}" for f in REPORT.figures for end in ("png", "svg", "pdf", "csv", "md")
    }
    assert {path.name for path in results.iterdir()} == tables | figures | {"runs.json"}


def test_table1_takes_the_groups_that_are_as_fast_as_ssd(results: Path) -> None:
    table = by_key(results / "table1.csv")
    assert float(table["pcg"]["groups.mean_size"]) == 25
    assert float(table["pcg"]["groups.theta"]) == pytest.approx(0.775)
    lengths = [float(table[key]["acceptance_length"]) for key in ("pcg", "ssd")]
    assert lengths[0] == pytest.approx(lengths[1], rel=0.03)
    assert table["pcg"]["paper_wer"] == "13.8 ± 0.4"
    assert float(table["pcg"]["similarity_sd"]) > 0
    for test in ("p", "p_welch", "p_seeds"):
        assert 0 < float(table["pcg"][f"wer_minus_ssd_{test}"]) <= 1
    text = (results / "table1.md").read_text()
    assert "Target + PCG at SSD's tokens a round: acceptance length" in text
    assert "%), within 3 %." in text
    assert "mean ± standard deviation over seeds" in text
    assert "Welch's t, and the paired t over seeds that both have" in text


def test_figure3_has_the_seeds_that_all_of_its_points_have(results: Path) -> None:
    """Lookahead 3 has three seeds and the others one: bands of two meanings in one curve."""
    text = (results / "figure3.md").read_text()
    assert "Seeds: 0 (PCG, mean size 40, SSD, β = 0.3, exact SD); 0, 1, 2 (target alone)." in text
    assert "Seeds: 0, 1, 2." in (results / "figure2.md").read_text()
    points = [p for p in read_csv(results / "figure3.csv") if p["series"] == "exact SD"]
    alone = json.loads((results / "runs.json").read_text())
    (run,) = (name for name in alone if name.startswith("speculative-exact-b0-k3-s0"))
    (point,) = (p for p in points if p["plot"] == "Acceptance length" and p["x"] == "3")
    length = alone[run]["summary"]["metrics"]["acceptance_length"]["value"]
    assert float(point["y"]) == pytest.approx(length, rel=1e-5)


def test_labels_keep_their_names_in_headings(results: Path) -> None:
    text = (results / "table1.md").read_text()
    assert "| Δ WER to target + SSD (β = 0.3), points" in text
    assert "sSD" not in text
    assert "Δ WER to target alone" in (results / "table1.md").read_text()


def test_table3_has_an_operating_point_of_its_own(results: Path) -> None:
    """Mel groups were as fast as SSD, whose speed is Table 1's; its WER is another there."""
    table = by_key(results / "table3.csv")
    assert float(table["embedding"]["groups.mean_size"]) == pytest.approx(10.3)
    assert float(table["mel"]["groups.mean_size"]) == 60
    lengths = [float(table[key]["acceptance_length"]) for key in ("mel", "embedding")]
    assert lengths[0] == pytest.approx(lengths[1], rel=0.03)
    assert table["embedding"]["paper_wer"] == "12.6"
    assert "Mel spectrogram: acceptance length" in (results / "table3.md").read_text()


def test_table2_has_the_swap_beside_the_paper(results: Path) -> None:
    table = by_key(results / "table2.csv")
    assert table["4.5"]["paper_delta_wer"] == "+0.004"
    assert table["4.5"]["paper_swapped"] == "75.0"
    assert 40 < float(table["4.5"]["swapped"]) < 50 < 100 * float(table["target"]["wer"])
    assert table["4.5"]["wer_minus_target"]
    assert float(table["10.3"]["groups.mean_size"]) == pytest.approx(10.3)
    assert table["pcg10.3"]["paper_speedup"] == "1.23x"


def test_figure2_has_both_frontiers_and_the_papers_points(results: Path) -> None:
    found = read_csv(results / "figure2.csv")
    assert {row["plot"] for row in found} == {axes.title for axes in REPORT.figures[0].axes}
    first = [row for row in found if row["plot"] == "Word errors, measured speed"]
    sizes = [row["tag"] for row in first if row["series"] == "PCG, mean group size"]
    assert sizes == ["1", "4.5", "10.3", "40", "140"]
    assert {row["series"] for row in first if row["kind"] == "published"} == {
        "paper: SD",
        "paper: SSD",
        "paper: PCG",
    }


NEEDS = {key: need for key, need in REPORT.tables[0].needs().items() if key in {"ssd", "pcg"}}


def group_run(runs: Path, size: float, strength: float, seed: int = 0) -> None:
    groups = groups_of(size)
    make_run(runs, "speculative", rule="group", beta=strength, n=12, seed=seed, groups=groups)


def test_a_speed_that_no_run_reaches_is_said(tmp_path: Path) -> None:
    make_run(tmp_path, "speculative", rule="tolerance", beta=0.3, n=12)
    group_run(tmp_path, 10.0, 0.0)
    (note,) = choose(find_runs(tmp_path), NEEDS).notes
    assert "further than 3 %, so not compared" in note
    table = fill_table(REPORT.tables[0], choose(find_runs(tmp_path), NEEDS))
    lines = [line["pcg"] for line in table.blocks.values() if "pcg" in line]
    beside = [cell for line in lines for at, cell in line.items() if at.name == "wer_minus_ssd"]
    assert [str(cell) for cell in beside] == ["-"]


def test_runs_with_all_seeds_win_over_a_nearer_one_with_a_single_seed(tmp_path: Path) -> None:
    for seed in (0, 1):
        make_run(tmp_path, "speculative", rule="tolerance", beta=0.3, n=12, seed=seed)
        group_run(tmp_path, 40.0, 0.4, seed)
    group_run(tmp_path, 30.0, 0.3)
    chosen = choose(find_runs(tmp_path), NEEDS).results["pcg"].seeds
    assert [run.config["rule.groups.mean_size"] for run in chosen] == [40.0, 40.0]
    assert [run.seed for run in chosen] == [0, 1]


def test_whole_drafts_are_another_system(tmp_path: Path) -> None:
    """A run of `rule.block=true` in the folder was taken as PCG, since its length was nearer."""
    make_run(tmp_path, "speculative", rule="tolerance", beta=0.3, n=12)
    group_run(tmp_path, 10.0, 0.0)
    config = config_of("speculative", "group", 0.3, 3, 0)
    config["rule"] = {"name": "group", "groups": groups_of(40.0), "block": True}
    write_run(tmp_path / "whole", config, 0.3, n=12)
    (found,) = choose(find_runs(tmp_path), NEEDS).results["pcg"].seeds
    assert found.config["rule.groups.mean_size"] == 10.0


def test_without_the_system_to_meet_nothing_is_chosen(tmp_path: Path) -> None:
    group_run(tmp_path, 10.0, 0.1)
    selection = choose(find_runs(tmp_path), NEEDS)
    assert not selection.runs
    assert len(selection.missing) == 2
