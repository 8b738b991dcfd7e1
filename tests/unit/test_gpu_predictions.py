"""scripts/gpu_predictions.py: the tables that docs/gpu.md has, and what they are made of."""

import json
from pathlib import Path
from statistics import median

import gpu_predictions
import pytest

ROOT = Path(__file__).parents[2]
TABLES = [
    gpu_predictions.cards,
    gpu_predictions.limits,
    gpu_predictions.rounds,
    gpu_predictions.tiny_table,
]


@pytest.mark.parametrize("table", TABLES)
def test_the_document_has_what_is_computed(table: object) -> None:
    """Line by line; print them by the script."""
    assert callable(table)
    assert "\n".join(table()) in (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")


def test_by_hand() -> None:
    """The CosyVoice 2 size: 363,707,904 weights of two bytes; 2.15 ms, then 399 steps."""
    first = gpu_predictions.cards()[2]
    assert first.startswith(f"| H100 SXM | 3,350 | {3350e9 / 2 / 363_707_904:,.0f} |")
    alone = 400 / (2.15e-3 + 399 * (466e-6 + 93e-6))
    assert gpu_predictions.rounds()[2].startswith(f"| CosyVoice 2 size alone | {alone:,.0f} |")
    share = 2 * 363_707_904 / 3350e9 / 466e-6
    assert f"| 466 | {share:.0%}".replace("%", " %") in gpu_predictions.limits()[2]


@pytest.mark.parametrize("name", ["tiny", "tiny_fine"])
def test_a_tiny_target_is_predicted_no_slower_than_on_a_core(name: str) -> None:
    """Even with the sampler as it was measured."""
    bench = json.loads((ROOT / "results" / "bench" / f"{name}.json").read_text(encoding="utf-8"))
    on_a_core = bench["tokens"] / median(bench["seconds"]["autoregressive"])
    slow, fast = gpu_predictions.tiny()[name]
    assert fast > slow > on_a_core
