"""Scores that ship give the cells of results/ssd_draft/draft_layers.md, records its lengths."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from speculative_tts.evaluation.compare import Comparison, compare_rows
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.rows import ScoreRow, read_row
from speculative_tts.evaluation.statistics import Measure
from speculative_tts.evaluation.summary import Bootstrap, interval

FOLDER = Path(__file__).parents[3] / "results" / "ssd_draft"
HOW = Bootstrap()
EXACT, SSD = "speculative-exact", "speculative-tolerance-b0.4"


def lines(kind: str, draft: str, system: str) -> list[dict[str, Any]]:
    """Return the rows of a draft's run, whose name begins with the system's."""
    (file,) = (FOLDER / kind / draft).glob(f"{system}-*.jsonl.gz")
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def scores(draft: str, system: str) -> list[ScoreRow]:
    """Return the scores of a run."""
    return [read_row(row) for row in lines("scores", draft, system)]


@pytest.fixture(scope="module")
def table() -> dict[str, dict[str, str]]:
    with (FOLDER / "draft_layers.csv").open() as file:
        return {row["key"]: row for row in csv.DictReader(file)}


def assert_printed(row: dict[str, str], name: str, found: Measure | Comparison) -> None:
    value = found.difference if isinstance(found, Comparison) else found.value
    for end, number in (("", value), ("_low", found.low), ("_high", found.high)):
        assert number is not None
        assert 100 * number == pytest.approx(float(row[f"{name}{end}"]), rel=1e-5)


@pytest.mark.parametrize("draft", ["ssd", "paper", "paper-as-long"])
def test_word_errors_of_a_draft_alone(table: dict[str, dict[str, str]], draft: str) -> None:
    found = interval(scores(draft, "draft"), METRICS["wer"], HOW)
    assert_printed(table[draft], "alone_wer", found)


@pytest.mark.parametrize("draft", ["ssd", "paper"])
def test_what_a_tolerance_costs(table: dict[str, dict[str, str]], draft: str) -> None:
    found = compare_rows(scores(draft, EXACT), scores(draft, SSD), "wer", HOW)
    assert_printed(table[draft], "ssd_0.4_cost", found)


@pytest.mark.parametrize(
    ("other", "system", "name"),
    [
        ("paper", "draft", "alone_wer"),
        ("paper", SSD, "ssd_0.4_wer"),
        ("paper-as-long", "draft", "alone_wer"),
    ],
)
def test_a_paired_difference_of_drafts(
    table: dict[str, dict[str, str]], other: str, system: str, name: str
) -> None:
    found = compare_rows(scores(other, system), scores("ssd", system), "wer", HOW)
    assert_printed(table[f"minus_{other}"], name, found)


@pytest.mark.parametrize("draft", ["ssd", "paper", "paper-as-long"])
def test_tokens_a_round_follow_from_the_records(
    table: dict[str, dict[str, str]], draft: str
) -> None:
    counts = lines("records", draft, EXACT)
    emitted = sum(row["accepted"] + row["residuals"] + row["bonuses"] for row in counts)
    rounds = sum(row["rounds"] for row in counts)
    assert emitted / rounds == pytest.approx(float(table[draft]["exact_length"]), rel=1e-5)
