"""Scores of the fine target's drafts give cells of results/fine_drafts, records the lengths."""

from dataclasses import replace

import pytest
from kept_runs import assert_cell, assert_difference, cells, scores, tokens_a_round

from speculative_tts.evaluation.rows import ScoreRow

FOLDER, TABLE = "fine_drafts", "fine_drafts/training_seeds"
ALONE = {"paper0": "draft-s0-6297ab85", "ssd0": "draft-s0-b9ead46c"}
SSD = [f"speculative-tolerance-b0.3-k3-s0-{one}" for one in ("6e631810", "157a55f9", "43190ba1")]
PCG = [f"speculative-group-m140-k3-s0-{one}" for one in ("f022bf08", "5f1339cd", "6c7a324b")]


def together(runs: list[str]) -> list[ScoreRow]:
    """Return the scores of several training seeds, which count as seeds of one system."""
    return [replace(row, seed=seed) for seed, run in enumerate(runs) for row in scores(FOLDER, run)]


@pytest.mark.parametrize("draft", ALONE)
def test_word_errors_of_a_draft_alone(draft: str) -> None:
    assert_cell(scores(FOLDER, ALONE[draft]), "wer", cells(TABLE, draft), "alone_wer")


def test_pcg_minus_ssd_by_each_seed_and_their_mean() -> None:
    for seed, (ssd, pcg) in enumerate(zip(SSD, PCG, strict=True)):
        a, b, row = scores(FOLDER, ssd), scores(FOLDER, pcg), cells(TABLE, f"paper{seed}")
        assert_difference(a, b, "wer", row, "pcg_140_gain")
    assert_difference(
        together(SSD), together(PCG), "wer", cells(TABLE, "paper_mean"), "pcg_140_gain"
    )


def test_an_advantage_of_the_sweep() -> None:
    ssd = scores(FOLDER, "speculative-tolerance-b0.3-k3-s0-0d5f5909")
    pcg = scores(FOLDER, "speculative-group-m140-k3-s0-6d576349")
    row = cells("fine_drafts/draft_quality", "ssd-seed0")
    assert_difference(pcg, ssd, "wer", row, "advantage")


def test_an_advantage_and_a_length_of_drafts_of_one_construction() -> None:
    folder, row = f"{FOLDER}/even", cells(f"{FOLDER}/even/draft_quality", "even8")
    ssd, pcg = "speculative-tolerance-b0.3-k3-s0-18061d3a", "speculative-group-m241-k3-s0-41f1a1dc"
    assert_difference(scores(folder, pcg), scores(folder, ssd), "wer", row, "advantage")
    assert tokens_a_round(folder, pcg) == pytest.approx(float(row["pcg_length"]), rel=1e-5)


def test_tokens_a_round_follow_from_the_records() -> None:
    printed = float(cells(TABLE, "paper0")["pcg_140_length"])
    assert tokens_a_round(FOLDER, PCG[0]) == pytest.approx(printed, rel=1e-5)
