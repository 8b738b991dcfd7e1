"""A judge whose measurement is the level of a wave, and which counts what it hears."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from speculative_tts.evaluation.audio import Wave
from speculative_tts.evaluation.judge import Columns, Measure
from speculative_tts.evaluation.rows import ScoreRow

HEARD: list[float] = []
STOP_AFTER: list[int] = []  # at most one number: raise KeyboardInterrupt after so many


@dataclass(frozen=True)
class LoudJudge:
    """Stands in for DNSMOS."""

    absent: bool = False
    id: str = "loud"
    version: str = "1"

    @property
    def options(self) -> dict[str, Any]:
        return {}

    def missing(self) -> str | None:
        return "loud needs ears; pip install ears" if self.absent else None

    def files(self, sample: ScoreRow) -> list[str]:
        return [sample.audio]

    def load(self) -> Measure:
        def measure(wave: Wave) -> float:
            if STOP_AFTER and len(HEARD) >= STOP_AFTER[0]:
                raise KeyboardInterrupt
            HEARD.append(float(np.abs(wave).max()))
            return float(np.abs(np.diff(wave)).max())

        return measure

    def score(self, samples: Sequence[ScoreRow], measured: Mapping[str, Any]) -> list[Columns]:
        return [{"dnsmos": measured.get(sample.audio)} for sample in samples]


class NumbJudge(LoudJudge):
    """Answers with NaN, as a model does whose statistics have no frame."""

    def load(self) -> Measure:
        return lambda _: float("nan")
