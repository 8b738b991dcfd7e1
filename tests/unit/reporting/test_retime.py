"""scripts/retime.py: clocks of other runs get into tables and figures, and nothing else does."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
import retime
import synthetic_runs
from clocks import TIMES, UNTIMED, captioned, clocked, points_with_clocks
from csv_rows import by_key
from draw_page import report_folders
from shipped import read_csv, read_table
from synthetic_runs import make_ssd_runs

from speculative_tts.evaluation.processes import ENOUGH
from speculative_tts.reporting.captions import ONE_PROCESS
from speculative_tts.reporting.experiments import TINY
from speculative_tts.reporting.fill_claims import NAME as CLAIMS
from speculative_tts.reporting.shown import REPORTS
from speculative_tts.reporting.tables import latex, markdown

Rows = list[dict[str, str]]
SHIPPED = Path(__file__).resolve().parents[3] / "results"
TABLES, FIGURES = ("table1", "table3", "matched_clock"), ("figure3", "tradeoff")


def rows_of(text: str) -> Rows:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fewer utterances on a machine half as fast, with errors of their own; in five processes."""
    folder = tmp_path_factory.mktemp("clocks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synthetic_runs, "TARGET_STEP", 2 * synthetic_runs.TARGET_STEP)
        patch.setitem(synthetic_runs.WER, "target", 0.5)
        make_ssd_runs(folder / "ssd", n=12)
    paths = sorted((folder / "ssd").glob("*/summary.json"))
    summaries = {path: json.loads(path.read_text()) for path in paths}
    for summary in summaries.values():
        for name in ("lm_rtf", "rtf", "speedup", "time_per_token_ms"):
            if name in summary["metrics"]:
                summary["metrics"][name]["processes"] = ENOUGH
    groups = [one["metrics"] for path, one in summaries.items() if "-group-" in str(path)]
    speeds = sorted((one["speedup"] for one in groups), key=lambda one: one["value"])
    for metrics, speed in zip(groups, speeds[1:] + speeds[:1], strict=True):
        metrics["speedup"] = speed  # another order of sizes by the clock
    for path, summary in summaries.items():
        path.write_text(json.dumps(summary))
    return folder


@pytest.fixture(scope="module")
def made(
    ssd_report: Path, runs: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """Return a report of SSD before and after."""
    before, after = ssd_report / "ssd", tmp_path_factory.mktemp("after") / "ssd"
    shutil.copytree(before, after)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retime, "RUNS", {"ssd": "ssd"})
        retime.retime(runs, after.parent)
        kept = {path.name: path.read_bytes() for path in after.iterdir()}
        retime.retime(runs, after.parent)
    assert kept == {path.name: path.read_bytes() for path in after.iterdir()}, "not the same twice"
    return before, after


@pytest.mark.parametrize("name", TABLES)
def test_words_stay_and_clocks_change(made: tuple[Path, Path], name: str) -> None:
    old, new = (read_csv(folder / f"{name}.csv") for folder in made)
    assert [row["key"] for row in old] == [row["key"] for row in new]
    for before, after in zip(old, new, strict=True):
        moved = before.get("groups.mean_size") != after.get("groups.mean_size")
        for column, text in before.items():
            if not (clocked(column) or moved):
                assert after[column] == text, column
        if before.get("speedup_n"):
            assert after["speedup"] != before["speedup"]
            assert (after["speedup_n"], after["speedup_processes"]) == ("12", str(ENOUGH))


def test_a_row_at_equal_speed_searches_again_and_has_the_words_of_its_new_size(
    made: tuple[Path, Path],
) -> None:
    old, new = (by_key(folder / "matched_clock.csv") for folder in made)
    words = {row["groups.mean_size"]: row["wer"] for row in old.values() if row["wer"]}
    words |= {
        row["groups.mean_size"]: row["wer"]
        for row in read_csv(made[0] / "matched_length.csv")
        if row["wer"]
    }
    sized = [row for row in new.values() if row["groups.mean_size"]]
    assert len(sized) == 4
    assert all(row["wer"] == words[row["groups.mean_size"]] for row in sized)
    changed = [k for k in new if new[k]["groups.mean_size"] != old[k]["groups.mean_size"]]
    assert changed, "of the two machines each size is the nearest to the same tolerance"


@pytest.mark.parametrize("name", FIGURES)
def test_points_move_by_their_clock_alone(made: tuple[Path, Path], name: str) -> None:
    old, new = (read_csv(folder / f"{name}.csv") for folder in made)
    assert len(old) == len(new)
    for before, after in zip(old, new, strict=True):
        changed = {key for key in before if before[key] != after[key]}
        timed = "speed" in before["plot"].lower() or "RTF" in before["plot"]
        itself = before["tag"] == "target alone" and "1" in (before["x"], before["y"])
        if itself or not timed or before["kind"] == "published":
            assert not changed
        else:
            assert changed == ({"x"} if name == "tradeoff" else {"y", "low", "high", "n"})


def test_both_origins_and_both_counts_are_told(made: tuple[Path, Path], runs: Path) -> None:
    before, after = ((folder / "table1.md").read_text() for folder in made)
    assert "speedup on 24" not in after
    assert "24 utterances (144 words), DNSMOS on 12" in after
    assert "runs of their own (12 utterances; seed 0). Their intervals are over processes" in after
    assert f"({ENOUGH} processes)" in after
    own = {line for line in before.splitlines() if line.startswith("- Runs: ")}
    assert own < {*after.splitlines()}
    assert "- Speeds, runs: " in after
    assert {*json.loads((made[1] / "speeds.json").read_text())} <= {
        path.name for path in (runs / "ssd").iterdir()
    }


def test_a_setting_without_a_run_has_no_speed(
    ssd_report: Path, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ssd_report / "ssd", tmp_path / "ssd")
    shutil.copytree(runs, tmp_path / "runs")
    (gone,) = (tmp_path / "runs" / "ssd").glob("speculative-tolerance-b0.2-*")
    shutil.rmtree(gone)
    monkeypatch.setattr(retime, "RUNS", {"ssd": "ssd"})
    retime.retime(tmp_path / "runs", tmp_path)
    table = by_key(tmp_path / "ssd" / "table3.csv")
    assert not table["0.2"]["speedup"]
    assert table["0.2"]["wer"]
    assert table["0.3"]["speedup"]
    assert "Speeds, β = 0.2: " in (tmp_path / "ssd" / "table3.md").read_text()


@pytest.mark.parametrize("column", ["plot", "series", "kind", "tag"])
def test_a_point_that_was_renamed_is_refused_by_its_name(
    made: tuple[Path, Path], column: str
) -> None:
    """It was left out in silence: a figure had lost its best point by that."""
    (figure,) = (one for one in REPORTS["ssd"](TINY).figures if one.name == "figure3")
    rows = read_csv(made[0] / "figure3.csv")
    points = rows_of(points_with_clocks(figure, rows, rows))
    assert points == rows
    renamed = [rows[0] | {column: "as it was called"}, *rows[1:]]
    with pytest.raises(ValueError, match=r"figure3: the figure has no point .*as it was called"):
        points_with_clocks(figure, renamed, rows)


def test_a_point_that_was_not_timed_is_left_out(made: tuple[Path, Path]) -> None:
    (figure,) = (one for one in REPORTS["ssd"](TINY).figures if one.name == "figure3")
    rows = read_csv(made[0] / "figure3.csv")
    assert rows_of(points_with_clocks(figure, rows, rows[1:])) == rows[1:]


WRITTEN = [
    (report, place, name)
    for report, place in report_folders(SHIPPED)
    for name in [*(one.name for one in report.tables), *([CLAIMS] if report.claims else [])]
    if (place / f"{name}.csv").is_file()
]
LINKED = "done again"  # a link that was written by hand becomes text


@pytest.mark.parametrize(
    ("report", "place", "name"),
    WRITTEN,
    ids=[str((place / name).relative_to(SHIPPED)) for _, place, name in WRITTEN],
)
def test_a_table_that_is_read_is_written_as_it_was(report: object, place: Path, name: str) -> None:
    table = read_table(place, report, name)  # type: ignore[arg-type]
    if LINKED not in table.warning:
        assert markdown(table) == (place / f"{name}.md").read_text()
        assert latex(table) == (place / f"{name}.tex").read_text()


def test_a_caption_without_any_new_clock_says_so() -> None:
    """It once ended in the middle: "Their intervals are.".

    That of a figure without clocks spoke of speeds; "of one process" stood beside speeds of five.
    """
    old = ["240 utterances; seed 0.", "Brackets: intervals.", "WER is a sum."]
    assert captioned([*old[:2], UNTIMED, *old[2:]], [], []) == old
    assert captioned([old[0], f"{old[1]} {ONE_PROCESS}", old[2]], [], []) == old
    found = captioned(old, [], ["SSD: "])
    assert UNTIMED in found
    assert not any(line.startswith(TIMES) for line in found)
    assert captioned(found, [], ["SSD: "]) == found


def test_clocks_that_a_table_had_lost_come_back(
    ssd_report: Path, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table once timed by no run had lost its columns of speeds for good."""
    monkeypatch.setattr(retime, "RUNS", {"ssd": "ssd"})
    (tmp_path / "once" / "ssd").mkdir(parents=True)
    for name in ("table3.csv", "table3.md", "table3.tex", "runs.json"):
        shutil.copy(ssd_report / "ssd" / name, tmp_path / "once" / "ssd")
    shutil.copytree(tmp_path / "once", tmp_path / "twice")
    retime.retime(runs, tmp_path / "once")
    (other,) = (runs / "ssd").glob("codec-*")
    shutil.copytree(other, tmp_path / "others" / "ssd" / other.name)
    retime.retime(tmp_path / "others", tmp_path / "twice")
    lost = [
        row for row in read_csv(tmp_path / "twice" / "ssd" / "table3.csv") if row.get("speedup")
    ]
    assert not lost
    retime.retime(runs, tmp_path / "twice")
    for name in ("table3.csv", "table3.md", "table3.tex"):
        once, twice = ((tmp_path / one / "ssd" / name).read_text() for one in ("once", "twice"))
        assert once == twice
