"""Scores that ship give the cells of results/ssd_draft/draft_layers.md, records its lengths."""

import pytest
from kept_runs import assert_cell, assert_difference, cells, scores, tokens_a_round

FOLDER, TABLE = "ssd_draft", "ssd_draft/draft_layers"
ALONE = {
    "ssd": "draft-s0-d5ceb667",
    "paper-as-long": "draft-s0-2e9dd96e",
    "paper": "draft-s0-7dea2ab2",
    "ssd-long": "draft-s0-af12c9f7",
}
EXACT = {
    "ssd": "speculative-exact-k3-s0-dc4e1a02",
    "paper-as-long": "speculative-exact-k3-s0-9557089f",
    "paper": "speculative-exact-k3-s0-04d24bef",
    "ssd-long": "speculative-exact-k3-s0-8f380c75",
}
SSD = {
    "ssd": "speculative-tolerance-b0.4-k3-s0-73abadd6",
    "paper-as-long": "speculative-tolerance-b0.4-k3-s0-0b97571b",
    "paper": "speculative-tolerance-b0.4-k3-s0-a8100401",
    "ssd-long": "speculative-tolerance-b0.4-k3-s0-87e469c8",
}


@pytest.mark.parametrize("draft", ALONE)
def test_word_errors_of_a_draft_alone(draft: str) -> None:
    assert_cell(scores(FOLDER, ALONE[draft]), "wer", cells(TABLE, draft), "alone_wer")


@pytest.mark.parametrize("draft", SSD)
def test_what_a_tolerance_costs(draft: str) -> None:
    exact, ssd = scores(FOLDER, EXACT[draft]), scores(FOLDER, SSD[draft])
    assert_difference(exact, ssd, "wer", cells(TABLE, draft), "ssd_0.4_cost")


@pytest.mark.parametrize("other", ["paper", "paper-as-long", "ssd-long"])
@pytest.mark.parametrize(("runs", "column"), [(ALONE, "alone_wer"), (SSD, "ssd_0.4_wer")])
def test_a_paired_difference_of_drafts(other: str, runs: dict[str, str], column: str) -> None:
    theirs, ours = scores(FOLDER, runs[other]), scores(FOLDER, runs["ssd"])
    assert_difference(theirs, ours, "wer", cells(TABLE, f"minus_{other}"), column)


@pytest.mark.parametrize("draft", EXACT)
def test_tokens_a_round_follow_from_the_records(draft: str) -> None:
    printed = float(cells(TABLE, draft)["exact_length"])
    assert tokens_a_round(FOLDER, EXACT[draft]) == pytest.approx(printed, rel=1e-5)
