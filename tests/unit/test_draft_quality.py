"""scripts/draft_quality.py: the slope of PCG's advantage over the draft's own word errors."""

from pathlib import Path
from typing import Any

import draft_quality
import numpy as np
import pytest
from draft_quality import fit

from speculative_tts.reporting import tables

WORDS = 9
ALONE = (0.2, 0.35, 0.5, 0.6)  # word errors of four drafts alone


def counts(advantage_of: Any, utterances: int = 120, seed: int = 0) -> dict[str, dict[str, Any]]:
    """Draw word edits of each system: PCG's from a fixed rate, SSD's from that and an advantage."""
    rng = np.random.default_rng(seed)
    words = np.full(utterances, WORDS)

    def drawn(rate: float) -> Any:
        return np.stack([rng.binomial(words, rate), words], 1).astype(float)

    rates = {f"draft-{own}": (own, 0.15 + advantage_of(own), 0.15) for own in ALONE}
    return {
        draft: dict(zip(("alone", "ssd", "pcg"), map(drawn, of), strict=True))
        for draft, of in rates.items()
    }


def grows(fitted: Any) -> str:
    """Return the verdict on the slope."""
    return str(fitted.slope.verdict("grows", "falls"))


def test_a_slope_that_is_there_is_found() -> None:
    fitted = fit(counts(lambda own: 0.3 * own))
    assert grows(fitted) == "grows"
    assert fitted.slope.low < 0.3 < fitted.slope.high
    assert grows(fit(counts(lambda own: 0.2 - 0.3 * own))) == "falls"


def test_the_same_advantage_of_every_draft_is_no_slope() -> None:
    """One of 20 intervals misses 0 by chance; 11 of 40 do at most once in 10^5 runs."""
    fits = [fit(counts(lambda own: 0.1, seed=seed), draws=300) for seed in range(40)]
    assert sum(grows(one) != "not shown either way" for one in fits) < 11
    assert all(one.mean.low > 0 for one in fits)


def test_the_slope_is_the_least_squares_line_of_the_points() -> None:
    drawn = counts(lambda own: own)
    rates = {
        name: np.array([100 * of[name][:, 0].sum() / of[name][:, 1].sum() for of in drawn.values()])
        for name in ("alone", "ssd", "pcg")
    }
    gain = rates["ssd"] - rates["pcg"]
    line = np.polyfit(rates["alone"], gain, 1)
    fitted = fit(drawn, draws=10)
    assert fitted.slope.value == pytest.approx(line[0])
    assert fitted.mean.value == pytest.approx(gain.mean())


def test_the_interval_over_drafts_holds_what_each_draft_adds_of_its_own() -> None:
    """It holds the slope in 95 of 100 sweeps of five drafts; below 170 of 200 once in 10^7 runs."""
    rng, x = np.random.default_rng(0), np.linspace(10, 60, 5)
    held = 0
    for _ in range(200):
        low, high = draft_quality.scatter(x, 0.1 * x + rng.normal(0, 2, 5))
        held += low < 0.1 < high
    assert held >= 170
    assert draft_quality.scatter(x[:2], x[:2]) is None


def test_drafts_of_an_earlier_table_come_back_as_they_were_printed() -> None:
    path = Path(__file__).parents[2] / "results" / "fine_drafts" / "draft_quality.csv"
    others = draft_quality.printed(path)
    none = draft_quality.Estimate(0.0, 0.0, 0.0)
    made = draft_quality.table(others, [], draft_quality.Fit(none, none, None), {})
    assert tables.comma_separated(made) == path.read_text(encoding="utf-8")
    marked = draft_quality.figure(others, made, others)
    assert [len(one.points) for one in marked.plots[1].series] == [6, 6, 1]
