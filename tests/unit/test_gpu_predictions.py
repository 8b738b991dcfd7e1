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
    gpu_predictions.lighter,
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


def test_a_lighter_draft_by_hand() -> None:
    """A layer of LLaSA-8B has 218,103,808 weights, its head 65,537 rows of 4,096."""
    layer, head = 2 * 218_103_808, 2 * 65_537 * 4096
    read = json.loads((ROOT / "results/bench" / gpu_predictions.ROWS).read_text(encoding="utf-8"))
    saved = 3 * 2 * layer / read["bytes_per_second"] * 1e6
    three, one = gpu_predictions.lighter()[2:4]
    assert three.startswith(f"| 3 layers | {(3 * layer + head) / 1e9:.2f} | 8,248 | 375 |")
    assert one.startswith(f"| 1 layer | {(layer + head) / 1e9:.2f} | {8247.655 - saved:,.0f} |")


@pytest.mark.parametrize("name", ["tiny", "tiny_fine"])
def test_a_tiny_target_is_predicted_no_slower_than_on_a_core(name: str) -> None:
    """Even with the sampler as it was measured."""
    bench = json.loads((ROOT / "results" / "bench" / f"{name}.json").read_text(encoding="utf-8"))
    on_a_core = bench["tokens"] / median(bench["seconds"]["autoregressive"])
    slow, fast = gpu_predictions.tiny()[name]
    assert fast > slow > on_a_core
