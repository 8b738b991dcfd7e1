"""What listeners said of runs, beside what the papers' listeners did."""

from pathlib import Path

import pytest
from csv_rows import by_key
from synthetic_runs import make_run

from speculative_tts.commands.report import main
from speculative_tts.evaluation.ratings import MeanRating, read_ratings, write_rating
from speculative_tts.reporting.experiments import TINY
from speculative_tts.reporting.runs import find_runs, pooled
from speculative_tts.reporting.shown import REPORTS


def heard(value: float) -> MeanRating:
    return MeanRating(value, value - 0.2, value + 0.2, 0.11, 1.1, 300, 30, "0123456789ab")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heard")
    for seed in (0, 1):
        for system in ("target", "draft"):
            make_run(folder, system, n=12, seed=seed)
    make_run(folder, "speculative", rule="tolerance", beta=0.4, n=12)
    return folder


def test_ssd_table_2_is_written_once_people_have_listened(runs: Path, tmp_path: Path) -> None:
    report = [f"runs={runs}", "paper=ssd", "page=false"]
    assert main([*report, f"out={tmp_path / 'before'}"]) == 0
    assert not list((tmp_path / "before").rglob("table2.*"))
    for run in runs.iterdir():
        if "-s1-" not in run.name:
            write_rating(run, "mos", heard(3.9 if run.name.startswith("target") else 3.7))
            write_rating(run, "smos", heard(3.5))
    assert main([*report, f"out={tmp_path / 'after'}"]) == 0
    table = by_key(tmp_path / "after" / "ssd" / "table2.csv")
    assert list(table) == ["draft", "target", "ssd"]
    assert (table["target"]["mos"], table["target"]["mos_low"]) == ("3.9", "3.7")
    assert table["ssd"]["smos"] == "3.5"
    assert table["target"]["paper_mos"] == "3.930 ± 0.147"
    text = (tmp_path / "after" / "ssd" / "table2.md").read_text()
    assert "3.90 [3.70, 4.10]" in text
    assert "brackets draw raters and utterances" in text


def test_seeds_share_the_figure_of_the_one_that_was_heard(runs: Path, tmp_path: Path) -> None:
    found = [run for run in find_runs(runs).runs if run.name.startswith("draft")]
    write_rating(found[0].folder, "mos", heard(3.1))
    found = [run for run in find_runs(runs).runs if run.name.startswith("draft")]
    both = pooled(found)
    assert both.measure("mos").value == 3.1
    assert both.measure("mos").sd == 1.1  # of ratings, as PCG prints, not of seeds
    assert both.measure("wer").n == 12


def test_the_other_papers_have_their_columns() -> None:
    """MOS and SMOS of MTP's Table I, NMOS of PCG's Table 1."""
    tables = {name: REPORTS[name](TINY).tables for name in ("mtp", "pcg")}
    for name, columns in {"mtp": ["mos", "smos"], "pcg": ["mos|dnsmos"]}.items():
        shown = [column.quantity for column in tables[name][0].panels[0].columns]
        assert set(columns) <= set(shown)
    assert tables["mtp"][1].paper.text("ours", "smos") == "2.79 ± 0.20"
    assert tables["mtp"][0].paper.text("truth", "mos") == "4.77 ± 0.09"


def test_a_spoilt_file_names_itself(tmp_path: Path) -> None:
    (tmp_path / "listening.json").write_text('{"mos": {"value": "high"}}')
    with pytest.raises(ValueError, match=r"listening\.json: mos: value is .*give a number"):
        read_ratings(tmp_path)
