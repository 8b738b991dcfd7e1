"""Every figure that a table or a plot may show: the metrics, and what reports make of runs."""

from dataclasses import replace

from speculative_tts.evaluation import ratings
from speculative_tts.evaluation.metric import Quantity
from speculative_tts.evaluation.registry import METRICS

MADE = {
    "groups.theta": Quantity("θ", 4, caption="θ is the cosine above which two tokens are similar."),
    "groups.groups": Quantity("groups", 0),
    "groups.mean_size": Quantity("mean group size", 1),
    "groups.median_size": Quantity("median size", 0),
    "groups.max_size": Quantity("largest group", 0),
    "groups.singletons": Quantity("singletons %", 1, 100.0),
    "groups.bytes": Quantity("KiB of indices", 0, 1 / 1024),
    "groups.likeness.spearman": Quantity(
        "rank correlation",
        3,
        caption=(
            "Rank correlation is that of cosine with closeness in the codec's codebook, over all "
            "pairs of tokens (1: the same order)."
        ),
    ),
    "groups.likeness.percentile": Quantity(
        "percentile of the nearest 50",
        1,
        caption=(
            "Percentile is where the 50 tokens nearest by cosine lie on average in the order of "
            "codebook distance (0: the closest, 50: chance)."
        ),
    ),
}


def whole(name: str) -> str:
    """Return the figure over all positions for `acceptance@1` (the first drafted token's)."""
    base, at, _ = name.partition("@")
    return "acceptance_rate" if at and base == "acceptance" else base


def quantities() -> dict[str, Quantity]:
    """Return all quantities by name, in the order of captions."""
    return {**METRICS, **ratings.QUANTITIES, **MADE}


def quantity(name: str) -> Quantity:
    """Return how `wer` or one position's `acceptance@1` is written."""
    shown, position = quantities()[whole(name)], name.partition("@")[2]
    return replace(shown, heading=f"{shown.heading} at {position}") if position else shown
