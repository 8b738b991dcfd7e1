"""Scores that ship beside a table give its cells: word errors, and a paired difference."""

import csv
import gzip
import json
from pathlib import Path

import pytest

from speculative_tts.evaluation.compare import compare_rows
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.rows import ScoreRow, read_row
from speculative_tts.evaluation.summary import Bootstrap, interval

FOLDER = Path(__file__).parents[3] / "results" / "swap"
HOW = Bootstrap()


def rows(system: str) -> list[ScoreRow]:
    """Return the scores of a system, all seeds."""
    files = sorted((FOLDER / "scores").glob(f"{system}-s*.jsonl.gz"))
    assert files
    lines = [line for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]
    return [read_row(json.loads(line)) for line in lines]


@pytest.fixture(scope="module")
def table() -> dict[str, dict[str, str]]:
    with (FOLDER / "pcg" / "table2.csv").open() as file:
        return {row["key"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize(("key", "system"), [("target", "target"), ("10.3", "swap-m10.3")])
def test_word_errors_of_the_table(table: dict[str, dict[str, str]], key: str, system: str) -> None:
    found = interval(rows(system), METRICS["wer"], HOW)
    for name, value in (("wer", found.value), ("wer_low", found.low), ("wer_high", found.high)):
        assert value is not None
        assert 100 * value == pytest.approx(float(table[key][name]), rel=1e-5)


def test_a_paired_difference_of_the_table(table: dict[str, dict[str, str]]) -> None:
    found = compare_rows(rows("target"), rows("swap-m10.3"), "wer", HOW)
    for name, value in (("", found.difference), ("_low", found.low), ("_high", found.high)):
        assert value is not None
        printed = float(table["10.3"][f"wer_minus_target{name}"])
        assert 100 * value == pytest.approx(printed, rel=1e-5)
