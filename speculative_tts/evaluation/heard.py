"""What listeners said of a run: figures that sst-listen writes into its folder, and tables read."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from speculative_tts.evaluation.metric import Better, Quantity
from speculative_tts.records import write_json
from speculative_tts.runs.folder import HEARD
from speculative_tts.schema.limits import Whole
from speculative_tts.typed import read_json, typed

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
class Mean:
    """A system's ratings: mean with its interval, and what papers print.

    `half` is half the width of Student's interval over all ratings as if they were independent
    (SSD, MTP), `sd` the ratings' standard deviation (PCG).
    """

    value: float
    low: float | None
    high: float | None
    half: float | None
    sd: float | None
    n: Whole  # ratings
    raters: Whole
    test: str  # whose ratings: id of the test


def read_heard(folder: Path) -> dict[str, dict[str, Any]]:
    """Figures by kind of test; none where nobody listened."""
    path = folder / HEARD
    there = read_json(path, AGAIN) if path.is_file() else {}
    return {name: asdict(typed(Mean, figure, f"{path}: {name}")) for name, figure in there.items()}


def write_heard(folder: Path, kind: str, mean: Mean) -> Path:
    """Add a test's figure to a run's; one of the same kind is replaced."""
    path = folder / HEARD
    write_json(path, read_heard(folder) | {kind: asdict(mean)})
    return path
