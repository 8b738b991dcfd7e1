"""The page that ships says what the files beside it say, and its first card follows from them."""

import re
from pathlib import Path
from typing import Any

import draw_page
import numpy as np
import pytest
from shipped import read_csv, read_page, shipped_section

from speculative_tts.evaluation.statistics import Measure
from speculative_tts.reporting.captions import SYNTHETIC, synthetic
from speculative_tts.reporting.definitions import Row
from speculative_tts.reporting.examples import Heard
from speculative_tts.reporting.experiments import TINY
from speculative_tts.reporting.page import read_sections, section
from speculative_tts.reporting.points import LOSS, _target, answers, retimed
from speculative_tts.reporting.runs import Run
from speculative_tts.reporting.shown import REPORTS
from speculative_tts.reporting.tables import (
    SYSTEM,
    Cell,
    Heading,
    Table,
    comma_separated,
    markdown,
)

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = ROOT / "results"
SECTIONS = read_sections(SHIPPED / "index.html")


def test_the_page_is_the_one_that_its_files_make() -> None:
    """`make page` draws it again; this fails where tables, scripts or styles have moved on."""
    again = draw_page.shipped_page(SHIPPED)
    assert again == (SHIPPED / "index.html").read_text(encoding="utf-8"), "run `make page`"


def test_a_page_that_speaks_of_recordings_says_at_its_top_that_they_are_synthetic() -> None:
    """Tables had rows "Recordings" and columns by speaker: four Flite voices, shifted by WORLD."""
    spoken = re.compile("recordings|speakers", re.IGNORECASE)
    found = {path: path.read_text(encoding="utf-8") for path in sorted(SHIPPED.rglob("*.md"))}
    pages = {path: text for path, text in found.items() if spoken.search(text)}
    assert len(pages) > 20
    silent = [path for path, text in pages.items() if "synthetic" not in text[:600]]
    assert not silent
    header = (SHIPPED / "index.html").read_text(encoding="utf-8").partition("<main>")[0]
    assert header.count(SYNTHETIC) == 1


@pytest.mark.parametrize(
    ("lists", "told"),
    [(["tiny", "tiny_fresh"], True), (["sentences"], True), (["tiny", "mine"], False), ([], False)],
)
def test_only_lists_that_ship_are_said_to_be_synthetic(lists: list[str], told: bool) -> None:
    runs = [Run(Path("run"), {"data.name": name}, {}, {}) for name in lists]
    assert synthetic(runs) == (SYNTHETIC if told else "")


def test_every_table_that_a_report_ships_is_on_the_page() -> None:
    for name, data in SECTIONS.items():
        names = {one["name"] for kind in ("tables", "figures") for one in data[kind]}
        assert names == {path.stem for path in (SHIPPED / name).glob("*.csv")}, name


def test_what_is_read_back_is_what_was_written(tmp_path: Path) -> None:
    """Every kind of cell, a heading with commas, texts that Markdown escapes."""
    headings = [
        SYSTEM,
        Heading("WER %", "pocketsphinx word grammar", "wer"),
        Heading("SIM", "paper (SS, ERes2Net)", "paper_similarity"),
        Heading("Δ WER to target alone, k = 3", "points [95 % CI] p", "wer_minus_target"),
        Heading("speedup", "", "speedup"),
    ]
    cells = [
        Cell("SSD | <b>[x](y)"),
        Cell.of(Measure(2.5, 1.9, 3.2)),
        Cell("43.7 ± 0.1"),
        Cell.of(Measure(-0.05, -0.78, 0.68, p=1.0), signed=True),
        Cell.of(Measure(1.8, sd=0.06), spread="sd"),
    ]
    block = {
        "ssd": dict(zip(headings, cells, strict=True)),
        "none": dict(zip(headings, [Cell("none"), *[Cell()] * 4], strict=True)),
    }
    table = Table(
        "table1",
        "Title",
        ("Caption.",),
        ("A note.",),
        ("Hardware: none",),
        ("a run",),
        "Beware.",
        "Who spoke.",
        blocks={"Part": block},
    )
    report = REPORTS["ssd"](TINY)
    (tmp_path / "table1.md").write_text(markdown(table), encoding="utf-8")
    (tmp_path / "table1.csv").write_text(comma_separated(table), encoding="utf-8")
    made = section(report, [table], [], Heard()).data
    again = shipped_section(report, tmp_path, dict(made)).data
    for own, read in zip(made["tables"], again["tables"], strict=True):
        for key in ("title", "caption", "notes", "origin", "missing", "warning", "speech"):
            assert list(own[key]) == list(read[key])
        for block, read_block in zip(own["blocks"], read["blocks"], strict=True):
            seen = [(h["group"], h["sub"]) for h in block["headings"]]
            assert [(h["group"], h["sub"]) for h in read_block["headings"]] == seen
            shown = [[cell[:2] for cell in line["cells"]] for line in block["lines"]]
            assert [[cell[:2] for cell in line["cells"]] for line in read_block["lines"]] == shown


def system(label: str, *, speed: float, high: float, **own: Any) -> dict[str, Any]:
    """A system of 240 utterances whose loss has this upper end."""
    return {
        "key": label,
        "label": label,
        "lossless": False,
        "speedup": [speed, speed - 0.1, speed + 0.1],
        "difference": [high - 1, high - 2, high],
        "processes": 5,
    } | own


def test_an_interval_that_reaches_zero_is_no_proof_of_no_loss() -> None:
    """With 20 utterances the interval of SSD 0.4 reached 0, and it was "without a loss"."""
    wide = system("wide", speed=3.0, high=4.0, difference=[1.5, -1.0, 4.0])
    sure = system("sure", speed=2.0, high=LOSS - 0.1)
    exact = system("exact", speed=1.5, high=9.0, lossless=True)
    found = answers([wide, sure, exact])
    assert (found["lossless"]["label"], found["within"]["label"]) == ("exact", "sure")
    assert answers([wide])["within"] is None
    assert answers([wide, exact])["within"]["label"] == "exact"


def test_a_speed_says_of_which_target_it_is() -> None:
    """The first card had times without a target, and 35 words are not all of English."""
    fastest = answers(SECTIONS["drafters"]["points"])["lossless"]
    assert fastest["target"] == "tiny_fine (35 words)"
    assert _target(["Models: `target=mine`, `draft=d`"]) == "mine"
    assert _target(["Models: `target=mine`, `target=tiny`"]) == ""


def test_a_speed_of_one_process_stands_back() -> None:
    lucky = system("lucky", speed=3.0, high=0.5, processes=1)
    sure = system("sure", speed=2.0, high=0.5)
    assert answers([lucky, sure])["within"]["label"] == "sure"
    assert answers([lucky])["within"]["label"] == "lucky"


def test_a_speed_is_that_of_the_table_with_more_processes() -> None:
    """The plot had the exact rule at 1.17, of one process, beside README's 1.05 of five."""
    point = {"label": "exact", "speedup": [1.17, 1.1, 1.25], "processes": 1}
    point |= {"speedup_table": "ssd/table1", "speedup_of": "ssd/table1/exact"}
    five = {"speedup": [1.05, 1.01, 1.09], "processes": 5, "speedup_table": "speeds/ssd"}
    timed = {"ssd/table1/exact": five | {"speedup_of": "speeds/ssd/exact"}}
    again = retimed(point, timed)
    assert again == point | five
    own = point | {"processes": 5}
    assert retimed(own, timed) == own, "its own table's, of as many"
    measured_again = {"ssd/table1/exact": five | {"speedup": [1.06, 1.02, 1.1]}}
    assert retimed(again, measured_again)["speedup"] == [1.06, 1.02, 1.1]
    assert retimed(point | {"processes": 6}, timed)["speedup"] == point["speedup"]
    assert retimed(point | {"speedup_of": "ssd/table1/ssd"}, timed)["speedup_table"] == "ssd/table1"


TIMES = [
    (row, place)
    for table in REPORTS["speeds"](TINY).tables
    for row in table.rows.values()
    for place in row.times
]


@pytest.mark.parametrize(("row", "place"), TIMES, ids=[place for _, place in TIMES])
def test_a_row_times_the_same_system(row: Row, place: str) -> None:
    """The two rows have the same conditions, wherever both name one."""
    paper, table, key = place.split("/")
    (rows,) = (one.rows for one in REPORTS[paper](TINY).tables if one.name == table)
    assert {*rows[key].where} & {*row.where}
    assert all(row.where.get(k, v) == v for k, v in rows[key].where.items())


def test_every_plotted_speed_is_that_of_its_table() -> None:
    """Read from the files, not from the page's own points."""
    seen = 0
    for point in (one for data in SECTIONS.values() for one in data["points"]):
        if point.get("speedup_of"):
            speeds = {
                tuple(float(row[f"speedup{end}"] or "nan") for end in ("", "_low", "_high"))
                for row in read_csv(SHIPPED / f"{point['speedup_table']}.csv")
                if row["speedup"]
            }
            known = [float("nan") if part is None else part for part in point["speedup"]]
            assert any(np.array_equal(known, one, equal_nan=True) for one in speeds), point
            seen += 1
    assert seen > 20


def test_the_first_card_is_of_the_tables_that_it_links_to() -> None:
    systems = [
        {**one, "section": name} for name, data in SECTIONS.items() for one in data["points"]
    ]
    found = answers(systems)
    for one in (found["lossless"], found["within"]):
        for figure in ("speedup", *(["difference"] if "difference" in one else [])):
            page = read_page(SHIPPED / f"{one[f'{figure}_table']}.md")
            cells = [row for _, rows in page.blocks for row in rows if row[0] == one["label"]]
            assert any(f"{abs(one[figure][0]):.2f}" in cell for row in cells for cell in row)
    assert found["within"]["lossless"] or found["within"]["difference"][2] < LOSS
