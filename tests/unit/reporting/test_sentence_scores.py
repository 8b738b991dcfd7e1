"""Scores of the sentence runs that ship give cells of their tables, and records the lengths."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from speculative_tts.evaluation.compare import compare_rows
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.rows import ScoreRow, read_row
from speculative_tts.evaluation.summary import Bootstrap, interval

FOLDER = Path(__file__).parents[3] / "results" / "sentences"
HOW = Bootstrap()
SEED_1 = ("exact-k3-s0-a307f1df", "tolerance-b0.4-k3-s0-8d0886d0")  # a draft's, exact and SSD


def lines(kind: str, name: str, folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Return the rows of the one run whose name begins so."""
    (file,) = (folder / kind).glob(f"{name}*.jsonl.gz")
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def scores(name: str) -> list[ScoreRow]:
    """Return the scores of a run."""
    return [read_row(row) for row in lines("scores", name)]


def cells(name: str) -> dict[str, dict[str, str]]:
    """Return the rows of a table by key."""
    with (FOLDER / f"{name}.csv").open() as file:
        return {row["key"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize(
    ("key", "run"), [("target", "target-s0"), ("exact", "speculative-exact-k3-s0")]
)
def test_word_errors_of_the_table(key: str, run: str) -> None:
    found, row = interval(scores(run), METRICS["wer"], HOW), cells("ssd/table1")[key]
    for name, value in (("wer", found.value), ("wer_low", found.low), ("wer_high", found.high)):
        assert value is not None
        assert 100 * value == pytest.approx(float(row[name]), rel=1e-5)


def test_a_paired_difference_of_drafts() -> None:
    """The draft of 15 layers: SSD's word errors minus PCG's."""
    pcg = scores("speculative-group-m125-k3-s0")
    ssd = scores("speculative-tolerance-b0.4-k3-s0-4b7a85a1")
    found = compare_rows(pcg, ssd, "wer", HOW)
    row = cells("draft_quality")["layers15"]
    for name, value in (("", found.difference), ("_low", found.low), ("_high", found.high)):
        assert value is not None
        assert 100 * value == pytest.approx(float(row[f"advantage{name}"]), rel=1e-5)


def test_what_a_tolerance_costs_by_a_draft_of_another_seed() -> None:
    exact, ssd = (
        [read_row(row) for row in lines("scores", f"speculative-{name}", FOLDER / "seeds")]
        for name in SEED_1
    )
    found, row = compare_rows(exact, ssd, "wer", HOW), cells("training_seeds")["lm1"]
    for name, value in (("", found.difference), ("_low", found.low), ("_high", found.high)):
        assert value is not None
        assert 100 * value == pytest.approx(float(row[f"cost{name}"]), rel=1e-5)


def test_tokens_a_round_follow_from_the_records() -> None:
    counts = lines("records", "speculative-exact-k3-s0")
    emitted = sum(row["accepted"] + row["residuals"] + row["bonuses"] for row in counts)
    rounds = sum(row["rounds"] for row in counts)
    table = cells("ssd/table1")["exact"]
    assert emitted / rounds == pytest.approx(float(table["acceptance_length"]), rel=1e-5)
