"""scripts/headlines.py: README.md and results/README.md say what the tables that ship say."""

import csv
import re
import runpy
import shutil
from pathlib import Path

import pytest
from scipy import stats

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "headlines.py"))
PAGES, filled = SCRIPT["PAGES"], SCRIPT["filled"]


@pytest.mark.parametrize("page", PAGES)
def test_pages_say_what_the_tables_say(page: str) -> None:
    text = (ROOT / page).read_text()
    assert filled(text, PAGES[page]) == text


def test_a_table_that_changes_changes_its_cells_and_no_other(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "results", tmp_path / "results")
    table = tmp_path / "results" / "ssd" / "table3.csv"
    table.write_text(
        re.sub(
            r"^(0\.2,[^,]*),[^,]*,[^,]*,[^,]*",
            r"\1,77.77,66.66,88.88",
            table.read_text(),
            flags=re.MULTILINE,
        )
    )
    text = (ROOT / "README.md").read_text()
    made = filled(text, PAGES["README.md"], tmp_path / "results")
    ((old, new),) = [
        (a, b) for a, b in zip(text.splitlines(), made.splitlines(), strict=True) if a != b
    ]
    assert new.startswith("| SSD, tolerance 0.2 ")
    (cell,) = [b for a, b in zip(old.split(" | "), new.split(" | "), strict=True) if a != b]
    assert cell == "77.8 [66.7, 88.9]"


def test_a_row_that_a_page_lost_is_named() -> None:
    page = (ROOT / "README.md").read_text().replace("| SSD, tolerance 0.2", "| SSD, a fifth")
    with pytest.raises(ValueError, match=r"What it measures.*SSD, tolerance 0.2"):
        filled(page, PAGES["README.md"])


def test_the_headline_is_the_mean_of_five_processes_with_its_interval() -> None:
    """Student's interval over the processes, each a seed of the table of the quiet machine."""
    with (ROOT / "results/drafters/fine.csv").open() as file:
        row = next(row for row in csv.DictReader(file) if row["key"] == "recurrent-5")
    mean, sd = float(row["speedup"]), float(row["speedup_sd"])
    half = stats.t.ppf(0.975, 4) * sd / 5**0.5
    headline = (ROOT / "README.md").read_text().partition("![")[0]
    assert f"is {mean:.2f} [{mean - half:.2f}, {mean + half:.2f}] times as fast" in headline


def test_a_speed_of_several_processes_has_an_interval_and_one_of_one_has_none(
    tmp_path: Path,
) -> None:
    """The exact rule stood at 1.17 in README, the highest of five figures of one rule."""
    text = (ROOT / "README.md").read_text()
    with (ROOT / "results/speeds/ssd.csv").open() as file:
        row = next(row for row in csv.DictReader(file) if row["key"] == "exact")
    mean, *ends = (float(row[f"speedup{part}"]) for part in ("", "_low", "_high"))
    (exact,) = re.findall(r"^\| exact speculative .*$", text, re.MULTILINE)
    assert f"| {mean:.2f} [{ends[0]:.2f}, {ends[1]:.2f}] |" in exact
    assert row["speedup_processes"] == "5"
    shutil.copytree(ROOT / "results", tmp_path / "results")
    for name, key in (("ssd/table1", "exact"), ("ssd/table3", "0.4")):
        table = tmp_path / "results" / f"{name}.csv"
        with table.open() as file:
            rows = list(csv.DictReader(file))
        for one in (one for one in rows if one["key"] == key):
            one |= {"speedup": "1.5", "speedup_low": "1.4", "speedup_high": "1.6"}
            one["speedup_processes"] = "5"
        with table.open("w") as file:
            writer = csv.DictWriter(file, [*rows[0], "speedup_processes"], extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
    made = filled(text, PAGES["README.md"], tmp_path / "results").splitlines()
    for start in ("| exact speculative", "| SSD, tolerance 0.4"):
        (line,) = [one for one in made if one.startswith(start)]
        assert "| 1.50 [1.40, 1.60] |" in line
    page = (ROOT / "results/README.md").read_text()
    (alone,) = re.findall(r"^\| SSD, beta 0.1 .*$", page, re.MULTILINE)
    assert re.search(r"\| 2\.46 \| 1\.17 \|", alone)  # timed in one process
