"""Scores and records that ship beside the papers' tables give differences and lengths.

`test_score_index.py` holds all word errors against the scores that ship.
"""

import pytest
from backed import plain
from kept_runs import (
    RESULTS,
    assert_difference,
    cells,
    difference,
    scores,
    scores_of,
    tokens_a_round,
)

from speculative_tts.runs.archive import ENDING

EXACT, PCG = "speculative-exact-k3-s", "speculative-group-m140-k3-s"
SSD1, SSD2, SSD3, SSD4 = (f"speculative-tolerance-b{n}-k3-s" for n in (0.1, 0.2, 0.3, 0.4))
REGISTERED, AS_LONG = "registered/pcg", "speculative-group-m162-k3-s"
RETEST, FAR = "registered/retest", "speculative-tolerance-b0.3-k6-recurrent-s"
VALLE = "mtp/table1_valle"
MOST_BYTES = 10_000_000
REMEDY = (
    "keep codes of fewer runs (scripts/keep_runs.py OUT FOLDER scores=OTHERS), or ship the "
    "records beside a release instead of in results/"
)
SPECULATIVE = [  # table, key of its row, folder, beginning of the runs' names
    ("ssd/table1", "exact", "ssd", EXACT),
    ("ssd/table1", "ssd", "ssd", SSD4),
    ("ssd/table3", "0.1", "ssd", SSD1),
    ("ssd/table3", "0.2", "ssd", SSD2),
    ("ssd/table3", "0.3", "ssd", SSD3),
    ("pcg/table1", "exact", "pcg", EXACT),
    ("pcg/table1", "ssd", "pcg", SSD3),
    ("pcg/table1", "pcg", "pcg", PCG),
    ("pcg/table3", "embedding", "pcg", "speculative-group-m10.3-k3-s"),
    (f"{REGISTERED}/matched_length", "exact", REGISTERED, EXACT),
    (f"{REGISTERED}/matched_length", "ssd0.3", REGISTERED, SSD3),
    (f"{REGISTERED}/matched_length", "pcg@length0.3", REGISTERED, AS_LONG),
]
PAIRS = [  # table, key of its row, column, folder, the runs of both
    ("ssd/table1", "ssd", "wer_minus_target", "ssd", "target-s", SSD4),
    ("ssd/table1", "ssd", "similarity_minus_target", "ssd", "target-s", SSD4),
    ("pcg/table1", "pcg", "wer_minus_ssd", "pcg", SSD3, PCG),
    (
        f"{REGISTERED}/matched_length",
        "pcg@length0.3",
        "wer_minus_ssd0.3",
        REGISTERED,
        SSD3,
        AS_LONG,
    ),
    (f"{RETEST}/drafters/words", "ssd", "wer_minus_target", f"{RETEST}/drafters", "target-s", FAR),
    ("pcg/table2", "10.3", "wer_minus_target", "pcg", "target-s", "swap-m10.3-s"),
]


def test_scores_and_records_are_archives_below_ten_megabytes() -> None:
    """A file for each run took 15.1 MB; in one stream the same rows take 6.2."""
    kept = [path for path in RESULTS.rglob("*.jsonl*") if path.suffix != ".jsonl"]
    others = [str(path) for path in kept if not path.name.endswith(ENDING)]
    assert others == [], "scripts/keep_runs.py writes and reads one format"
    size = sum(path.stat().st_size for path in kept)
    assert 0 < size < MOST_BYTES, REMEDY


def test_what_heads_cost() -> None:
    """Runs of two targets have scores there, under names that begin alike."""
    cached, best = (scores_of(VALLE, key) for key in ("cached", "best4"))
    assert_difference(cached, best, "wer", cells(VALLE, "best4"), "wer_minus_cached")


def test_a_claim_of_the_second_registered_list() -> None:
    """Eight heads by the best path minus each by itself."""
    one, other = (scores(RETEST, f"multi_token-n8-{mode}-") for mode in ("none", "best"))
    assert_difference(one, other, "wer", cells(f"{RETEST}/claims", "mtp4"), "here")


@pytest.mark.parametrize(("table", "key", "column", "folder", "a", "b"), PAIRS, ids=str)
def test_a_paired_difference_of_a_table(
    table: str, key: str, column: str, folder: str, a: str, b: str
) -> None:
    metric = column.partition("_minus_")[0]
    assert_difference(scores(folder, a), scores(folder, b), metric, cells(table, key), column)


def test_what_the_pages_say_of_a_tolerances_cost() -> None:
    """Both pages print SSD at 0.4 minus the target alone, in points."""
    found = difference(scores("ssd", "target-s"), scores("ssd", SSD4), "wer")
    value, low, high = (f"{100 * one:.1f}" for one in found)
    for page in (RESULTS.parent / "README.md", RESULTS / "README.md"):
        assert f"{value} points [{low}, {high}]" in plain(page.read_text(encoding="utf-8"))


def test_what_the_pages_say_of_the_path_search() -> None:
    """Both pages print eight heads by the best path minus each by itself, in points."""
    one, other = (scores_of(VALLE, f"{mode}8") for mode in ("none", "best"))
    value, low, high = (f"{100 * one:.1f}" for one in difference(one, other, "wer"))
    for page in (RESULTS.parent / "README.md", RESULTS / "README.md"):
        assert f"{value} points [{low}, {high}]" in plain(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("table", "key", "folder", "run"), SPECULATIVE, ids=str)
def test_tokens_a_round_follow_from_the_records(
    table: str, key: str, folder: str, run: str
) -> None:
    printed = float(cells(table, key)["acceptance_length"])
    assert tokens_a_round(folder, run) == pytest.approx(printed, rel=1e-5)
