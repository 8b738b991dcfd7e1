"""Map each target to the module of its check, and define the rows that a check yields.

A check is a module with `check(folder: Path) -> Iterator[CheckRow]`. It reads sizes and
vocabularies from the folder, raises `FormatError` (or another ValueError) when the folder is not in
its format, and computes each case only when it is asked for, so that a table fills while it runs.
"""

import importlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

Check = Callable[[Path], Iterator["CheckRow"]]

CHECKS = {
    "cosyvoice2": "speculative_tts.checks.cosyvoice2",
    "csm": "speculative_tts.checks.csm",
    "llasa": "speculative_tts.checks.llasa",
    "maya1": "speculative_tts.checks.code_rows",
    "orpheus": "speculative_tts.checks.code_rows",
    "snac": "speculative_tts.checks.snac",
    "soprano": "speculative_tts.checks.code_rows",
    "spark": "speculative_tts.checks.code_rows",
    "speechtokenizer": "speculative_tts.checks.speechtokenizer",
    "uslm": "speculative_tts.checks.valle",
    "valle": "speculative_tts.checks.valle",
    "veena": "speculative_tts.checks.code_rows",
    "viterbi": "speculative_tts.checks.viterbi",
}
"""Modules by target, imported only when asked for."""


class FormatError(ValueError):
    """Raised for a folder that is not in the golden format of its target."""


@dataclass(frozen=True)
class CheckRow:
    """One case: the worst difference found, and the largest that is allowed.

    Counts of differing entries (codes, ids) have tolerance 0.
    """

    case: str
    worst: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """True if the difference is a number within the tolerance."""
        return math.isfinite(self.worst) and self.worst <= self.tolerance


def load_check(target: str) -> Check:
    """Load the check of a target; ValueError lists the known ones."""
    if target not in CHECKS:
        raise ValueError(f"target {target!r} has no golden check; known: {', '.join(CHECKS)}")
    check: Check = importlib.import_module(CHECKS[target]).check
    return check
