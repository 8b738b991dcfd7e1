"""scripts/draft_quality.py: the slope of PCG's advantage over the draft's own word errors."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "draft_quality.py"))
slope = SCRIPT["slope"]
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


def test_a_slope_that_is_there_is_found() -> None:
    fitted = slope(counts(lambda own: 0.3 * own))
    assert fitted.verdict == "grows"
    assert fitted.low < 0.3 < fitted.high
    assert slope(counts(lambda own: 0.2 - 0.3 * own)).verdict == "falls"


def test_the_same_advantage_of_every_draft_is_no_slope() -> None:
    """One of 20 intervals misses 0 by chance; 11 of 40 do at most once in 10^5 runs."""
    said = [slope(counts(lambda own: 0.1, seed=seed), draws=300).verdict for seed in range(40)]
    assert sum(one != "not shown either way" for one in said) < 11


def test_the_slope_is_the_least_squares_line_of_the_points() -> None:
    drawn = counts(lambda own: own)
    rates = {
        name: np.array([100 * of[name][:, 0].sum() / of[name][:, 1].sum() for of in drawn.values()])
        for name in ("alone", "ssd", "pcg")
    }
    line = np.polyfit(rates["alone"], rates["ssd"] - rates["pcg"], 1)
    assert slope(drawn, draws=10).value == pytest.approx(line[0])
