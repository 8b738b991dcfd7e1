"""Scores of the sentence runs that ship give cells of their tables, and records the lengths."""

import pytest
from kept_runs import assert_cell, assert_difference, cells, scores, tokens_a_round

FOLDER, SEEDS = "sentences", "sentences/seeds"


@pytest.mark.parametrize(
    ("key", "run"), [("target", "target-s0"), ("exact", "speculative-exact-k3-s0")]
)
def test_word_errors_of_the_table(key: str, run: str) -> None:
    assert_cell(scores(FOLDER, run), "wer", cells("sentences/ssd/table1", key))


def test_a_paired_difference_of_drafts() -> None:
    """The draft of 15 layers: SSD's word errors minus PCG's."""
    pcg = scores(FOLDER, "speculative-group-m125-k3-s0")
    ssd = scores(FOLDER, "speculative-tolerance-b0.4-k3-s0-4b7a85a1")
    row = cells("sentences/draft_quality", "layers15")
    assert_difference(pcg, ssd, "wer", row, "advantage")


def test_what_a_tolerance_costs_by_a_draft_of_another_seed() -> None:
    exact = scores(SEEDS, "speculative-exact-k3-s0-a307f1df")
    ssd = scores(SEEDS, "speculative-tolerance-b0.4-k3-s0-8d0886d0")
    assert_difference(exact, ssd, "wer", cells("sentences/training_seeds", "lm1"), "cost")


def test_tokens_a_round_follow_from_the_records() -> None:
    printed = float(cells("sentences/ssd/table1", "exact")["acceptance_length"])
    assert tokens_a_round(FOLDER, "speculative-exact-k3-s0") == pytest.approx(printed, rel=1e-5)


def test_cells_by_base_and_by_the_sampler_of_pcgs_paper() -> None:
    base = cells("sentences/base/ssd/table1", "target")
    assert_cell(scores("sentences/base", "target-s0"), "wer", base)
    folder, table = "sentences/pcg_sampler", cells("sentences/pcg_sampler/pcg/table2", "10.3")
    assert_difference(
        scores(folder, "target-s0"),
        scores(folder, "swap-m10.3-s0"),
        "wer",
        table,
        "wer_minus_target",
    )
