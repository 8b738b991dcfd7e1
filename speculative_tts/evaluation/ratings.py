"""Store listeners' mean ratings in a run's folder: sst-listen writes them, tables read them."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from speculative_tts.evaluation.metric import Better, Quantity
from speculative_tts.runs.folder import HEARD
from speculative_tts.schema.fields import Whole
from speculative_tts.typed import read_json, typed, write_json

AGAIN = "sst-listen score writes it again"

_ABOUT = (
    "1 to 5, by listeners (sst-listen); brackets draw raters and utterances, ± is the standard "
    "deviation of single ratings."
)
QUANTITIES = {
    "mos": Quantity("MOS", better=Better.higher, caption=f"MOS is how natural it sounds, {_ABOUT}"),
    "smos": Quantity(
        "SMOS", better=Better.higher, caption=f"SMOS is how like the prompt's voice, {_ABOUT}"
    ),
}


@dataclass(frozen=True)
class MeanRating:
    """Mean rating of a system with its interval, and the spreads that papers print.

    `half` is half the width of Student's interval over all ratings, taken as independent (SSD,
    MTP); `sd` is the ratings' standard deviation (PCG).
    """

    value: float
    low: float | None
    high: float | None
    half: float | None
    sd: float | None
    n: Whole  # ratings
    raters: Whole
    test: str  # id of the listening test


def read_ratings(folder: Path) -> dict[str, dict[str, Any]]:
    """Read mean ratings by kind of test; empty if there was none."""
    path = folder / HEARD
    stored = read_json(path, AGAIN) if path.is_file() else {}
    return {n: asdict(typed(MeanRating, mean, f"{path}: {n}")) for n, mean in stored.items()}


def write_rating(folder: Path, kind: str, mean: MeanRating) -> Path:
    """Store a test's mean rating in a run's folder, replacing one of the same kind."""
    path = folder / HEARD
    write_json(path, read_ratings(folder) | {kind: asdict(mean)})
    return path
