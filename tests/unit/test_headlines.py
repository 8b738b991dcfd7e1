"""scripts/headlines.py: README.md and results/README.md say what the tables that ship say."""

import csv
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from backed import plain
from csv_rows import by_key
from headlines import PAGES, filled
from kept_runs import cells
from shipped import read_csv

from speculative_tts.reporting.page import read_sections
from speculative_tts.reporting.points import answers

ROOT = Path(__file__).parents[2]


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
    assert cell == "77.8"


def test_a_row_that_a_page_lost_is_named() -> None:
    page = (ROOT / "README.md").read_text().replace("| SSD, tolerance 0.2", "| SSD, a fifth")
    with pytest.raises(ValueError, match=r"What it measures.*SSD, tolerance 0.2"):
        filled(page, PAGES["README.md"])


def test_the_fastest_lossless_system_is_the_same_on_every_page() -> None:
    """README said 1.80 (lookahead 5), the page's first card 1.84 (lookahead 6).

    One rule for all: the highest lower end of the interval, of speeds of several processes. The
    README has the mean and the band of all exact settings that every hour timed, since which leads
    differs between hours, and the page of hours has each. README said two hours; there were three,
    of which the first is in the log alone.
    """
    fine, again = exact_rows("drafters/fine"), exact_rows("speeds/recurrent")
    log = (ROOT / "results/log/2026.md").read_text()
    (first,) = re.findall(r"first hour, dd5301a: ([^;]*);", log)
    hours = {
        key: [f"{early.rstrip(']')}]", speed(again[key]), speed(fine[key])]
        for key, early in zip(again, first.split("], "), strict=True)
    }
    page = plain((ROOT / "results/speeds/hours.md").read_text())
    for key, speeds in hours.items():
        (line,) = re.findall(rf"^\| recurrent layer, exact, {key[-1]} \|.*$", page, re.MULTILINE)
        assert line.split(" | ")[1:4] == speeds
    timed = [float(one.split()[0]) for speeds in hours.values() for one in speeds]
    headline = plain((ROOT / "README.md").read_text().partition("![")[0])
    assert f"about {sum(timed) / len(timed):.1f} times as fast" in headline
    assert f"{min(timed):.2f} to {max(timed):.2f} in three hours" in headline
    drafted = sorted(int(key.rpartition("-")[2]) for key in again)
    assert f"drafting {drafted[0]} to {drafted[-1]} tokens" in headline
    leading = max(fine, key=lambda key: float(fine[key]["speedup_low"]))
    system, _, lookahead = leading.partition("-")
    mean, _, ends = speed(fine[leading]).partition(" ")
    page = (ROOT / "results/README.md").read_text()
    (line,) = re.findall(r"^\| fine .*, exact \|.*\*\*.*$", page, re.MULTILINE)
    assert line.startswith(f"| fine | `drafter={system}`, exact | {lookahead} |")
    assert line.endswith(f"| **{mean}** {ends} |")
    sections = read_sections(ROOT / "results/index.html")
    systems = [{**one, "section": name} for name, of in sections.items() for one in of["points"]]
    card = answers(systems)["lossless"]
    assert (card["speedup_of"], card["processes"]) == (f"drafters/fine/{leading}", 5)


def test_a_speed_of_several_processes_has_an_interval_and_one_of_one_has_none(
    tmp_path: Path,
) -> None:
    """The exact rule stood at 1.17 in README, the highest of five figures of one rule.

    A row that one process timed takes the speed of another table of several, if there is one.
    """
    text = (ROOT / "README.md").read_text()
    (exact,) = re.findall(r"^\| exact speculative .*$", text, re.MULTILINE)
    assert f"| {speed_of('ssd/table1', 'exact')} |" in exact
    shutil.copytree(ROOT / "results", tmp_path / "results")
    for name, key in (("ssd/table1", "exact"), ("mtp/table1_valle", "none4")):
        table = tmp_path / "results" / f"{name}.csv"
        rows = read_csv(table)
        for one in (one for one in rows if one["key"] == key):
            one |= {"speedup": "1.5", "speedup_low": "1.4", "speedup_high": "1.6"}
            one["speedup_processes"] = "1"
        with table.open("w") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    page = (ROOT / "results/README.md").read_text()
    made = filled(page, PAGES["results/README.md"], tmp_path / "results")
    ((several, _), (one, _)) = (
        re.findall(rf"^(\| {start} .*)(\n)", made, re.MULTILINE)[0]
        for start in ("exact speculative", "4 heads, each by itself")
    )
    assert f"| {speed_of('speeds/ssd', 'exact')} |" in several
    assert "| 1.50 |" in one


def exact_rows(table: str) -> dict[str, dict[str, str]]:
    """Return the rows of a table of speeds that the exact rule has, by key."""
    rows = by_key(ROOT / f"results/{table}.csv")
    return {key: one for key, one in rows.items() if ", exact, " in one["system"]}


def speed(row: Mapping[str, str]) -> str:
    """Return a row's speed with its interval, as pages print it."""
    mean, *ends = (f"{float(row[f'speedup{part}']):.2f}" for part in ("", "_low", "_high"))
    return f"{mean} [{', '.join(ends)}]"


def speed_of(table: str, key: str) -> str:
    """Return a shipped speed of five processes with its interval, as pages print it."""
    row = cells(table, key)
    assert row["speedup_processes"] == "5"
    return speed(row)
