"""Tests over seeds: the paper's own p, and seeds that are all alike."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from speculative_tts.evaluation.compare import compare_rows
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.statistics import welch
from speculative_tts.evaluation.summary import Bootstrap


def three(mean: float, sd: float) -> np.ndarray:
    return mean + sd * np.array([-1.0, 0.0, 1.0])


def test_welch_is_scipys_and_gives_what_pcgs_table_implies() -> None:
    ssd, pcg = three(18.5, 1.9), three(13.8, 0.4)
    assert welch(ssd, pcg) == pytest.approx(stats.ttest_ind(ssd, pcg, equal_var=False).pvalue)
    assert welch(ssd, pcg) == pytest.approx(0.045, abs=0.002)  # the paper prints 0.039


def test_seeds_without_spread() -> None:
    assert welch(np.array([0.1, 0.1]), np.array([0.1, 0.1 + 1e-17])) == 1.0
    assert welch(np.array([0.1, 0.1]), np.array([0.2, 0.2])) == 2 / 6  # by chance
    assert 0 < (welch(np.array([0.1, 0.1]), np.array([0.2, 0.25])) or 0) < 1
    assert welch(np.array([0.1]), np.array([0.2, 0.3])) is None


def rows(wrong: dict[int, int]) -> list[ScoreRow]:
    """Two utterances of ten words a seed, `wrong` words in all."""
    row = ScoreRow(id="", speaker="", seed=0, text="", audio="")
    none = {"words": 10, "deletions": 0, "insertions": 0}
    return [
        replace(
            row,
            id=f"u{i}",
            seed=seed,
            columns=none | {"substitutions": count // 2 + (count % 2) * i},
        )
        for seed, count in wrong.items()
        for i in range(2)
    ]


def test_a_comparison_tests_the_seeds_corpus_figures() -> None:
    a, b = {0: 2, 1: 3, 2: 5}, {0: 5, 1: 6, 2: 9}
    found = compare_rows(rows(a), rows(b), "wer", Bootstrap(draws=100))
    rates = [np.array([*counts.values()]) / 20 for counts in (a, b)]
    assert found.tests["welch"] == pytest.approx(stats.ttest_ind(*rates, equal_var=False).pvalue)
    assert found.tests["seeds"] == pytest.approx(stats.ttest_rel(*rates).pvalue)
    single = compare_rows(rows({0: 2}), rows({0: 4}), "wer", Bootstrap(draws=100))
    assert single.tests["welch"] is single.tests["seeds"] is None
