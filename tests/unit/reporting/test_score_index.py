"""results/scores.csv names the runs that give a word error; results/scores.md counts them."""

import pytest
from kept_runs import RESULTS
from score_index import INDEX, PAGE, Source, cells, figures, index, page, read_scores
from shipped import read_csv

SOURCES = [Source(**row) for row in read_csv(RESULTS / INDEX)]
CELLS = {(one.table, one.key, one.column): one.figures for one in cells(RESULTS)}
SYSTEMS = sorted({(one.folder, one.runs, one.part) for one in SOURCES})


@pytest.mark.parametrize(("folder", "runs", "part"), SYSTEMS, ids=str)
def test_scores_give_every_cell_that_the_index_says(folder: str, runs: str, part: str) -> None:
    found = figures(read_scores(RESULTS / folder, runs.split(), part))
    for one in SOURCES:
        if (one.folder, one.runs, one.part) == (folder, runs, part):
            assert CELLS[one.table, one.key, one.column] == found, one


def test_the_page_counts_what_the_index_has() -> None:
    written = (RESULTS / PAGE).read_text(encoding="utf-8")
    assert written == page([*cells(RESULTS)], SOURCES), "python scripts/score_index.py results"


@pytest.mark.whole
def test_the_index_has_every_cell_that_the_scores_give() -> None:
    assert index(RESULTS) == SOURCES


def test_a_word_that_was_heard_wrong_changes_the_figures() -> None:
    folder, runs, _ = SYSTEMS[0]
    rows = read_scores(RESULTS / folder, runs.split()[:1])
    assert figures(rows) != figures(rows[:-1])
