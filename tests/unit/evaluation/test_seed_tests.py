"""Tests over seeds: a comparison takes the corpus figure of each."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from speculative_tts.evaluation.compare import compare_rows
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.summary import Bootstrap


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
