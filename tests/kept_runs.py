"""Read the scores and records that ship beside the tables, and compare cells with them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from csv_rows import by_key
from keep_runs import archive
from score_index import unpacked
from shipped import read_csv

from speculative_tts.evaluation.compare import compare_rows
from speculative_tts.evaluation.rows import ScoreRow, read_row
from speculative_tts.evaluation.summary import Bootstrap

RESULTS = Path(__file__).parent.parent / "results"
PERCENT = {"wer": 100.0}  # what a table prints in percent or points
Cells = dict[str, str]


def lines(folder: str, kind: str, name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of the runs, one or a seed each, whose names begin so."""
    path = archive(RESULTS / folder, kind)
    runs = [rows for run, rows in unpacked(path).items() if run.startswith(name)]
    assert runs, f"{path} has no {name}"
    for rows in runs:
        yield from rows


def scores(folder: str, name: str) -> list[ScoreRow]:
    """Return the scores of a system, all seeds."""
    return [read_row(row) for row in lines(folder, "scores", name)]


def scores_of(table: str, key: str) -> list[ScoreRow]:
    """Return the scores that a row's word errors follow from, by the index of them."""
    cell, index = (table, key, "wer"), read_csv(RESULTS / "scores.csv")
    row = next(r for r in index if (r["table"], r["key"], r["column"]) == cell)
    return [one for name in row["runs"].split() for one in scores(row["folder"], name)]


def tokens_a_round(folder: str, name: str) -> float:
    """Return the acceptance length that a system's records give, all seeds."""
    counts = list(lines(folder, "records", name))
    emitted = sum(row["accepted"] + row["residuals"] + row["bonuses"] for row in counts)
    return float(emitted / sum(row["rounds"] for row in counts))


def cells(table: str, key: str) -> Cells:
    """Return a row of a table, by its key."""
    return by_key(RESULTS / f"{table}.csv")[key]


def difference(a: list[ScoreRow], b: list[ScoreRow], metric: str) -> tuple[float, float, float]:
    """Return the paired difference, b minus a, with its interval."""
    found = compare_rows(a, b, metric, Bootstrap())
    value, low, high = (one for one in (found.value, found.low, found.high) if one is not None)
    return value, low, high


def assert_difference(
    a: list[ScoreRow], b: list[ScoreRow], metric: str, printed: Cells, column: str
) -> None:
    """Hold the paired difference, b minus a, against that of a table's row."""
    found = [PERCENT.get(metric, 1.0) * one for one in difference(a, b, metric)]
    wanted = [float(printed[f"{column}{end}"]) for end in ("", "_low", "_high")]
    assert found == pytest.approx(wanted, rel=1e-5)  # six digits are printed
