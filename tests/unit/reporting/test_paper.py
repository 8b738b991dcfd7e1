"""The papers' figures, against their own arithmetic."""

import pytest

from speculative_tts.reporting.examples import align
from speculative_tts.reporting.paper import number, published

SSD_TABLE_1, SSD_TABLE_3 = published("ssd_table1"), published("ssd_table3")


def test_tables_1_and_3_of_ssd_agree_where_they_overlap() -> None:
    assert SSD_TABLE_1.rows["ssd"] == SSD_TABLE_3.rows["0.4"]
    assert SSD_TABLE_1.rows["target"] == SSD_TABLE_3.rows["target"]


@pytest.mark.parametrize("table", [SSD_TABLE_1, SSD_TABLE_3])
def test_derived_speedups(table: object) -> None:
    for row in table.rows:  # type: ignore[attr-defined]
        speedup = 0.504 / table.value(row, "lm_rtf")  # type: ignore[attr-defined]
        assert table.value(row, "speedup") == pytest.approx(speedup, abs=0.005)  # type: ignore[attr-defined]
    assert SSD_TABLE_1.text("exact", "wer") is None


@pytest.mark.parametrize(("text", "value"), [("13.8 ± 0.4", 13.8), ("1.4x", 1.4), ("0.504", 0.504)])
def test_numbers_in_printed_cells(text: str, value: float) -> None:
    assert number(text) == value


def test_words_heard_are_marked() -> None:
    assert align("one two three", "one too three four") == [
        ("equal", "one"),
        ("substitute", "too"),
        ("equal", "three"),
        ("insert", "four"),
    ]
    assert ("delete", "two") in align("one two three", "one three")
    assert align("", "hello") == [("insert", "hello")]
