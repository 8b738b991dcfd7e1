"""Measure speaker similarity: the cosine of embeddings of the output and its own voice prompt.

All judges of voices share this module. The prompt is the recording, not its resynthesis (SIM-O).
The floor is the mean cosine of an output to the prompts of the list's other speakers: the
similarity of a wrong voice. Values of different encoders cannot be compared.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from speculative_tts.evaluation.audio import SAMPLE_RATE, Wave
from speculative_tts.evaluation.judge import Columns
from speculative_tts.evaluation.metric import Better, Metric, each
from speculative_tts.evaluation.rows import ScoreRow

FLOOR = "other speakers' prompts"
LEAST = SAMPLE_RATE // 2  # samples that an encoder needs

_compared = partial(Metric, digits=3, judge="similarity", judges={"ge2e": "GE2E"}, listed=True)
METRICS = {
    "similarity": _compared(
        "SIM",
        better=Better.higher,
        caption="SIM is the cosine between speaker embeddings of the output and its prompt.",
        columns=each("similarity"),
        compared=True,
    ),
    "similarity_floor": _compared(
        "SIM to other speakers",
        caption=(
            "SIM to other speakers is its mean cosine to the prompts of the list's other "
            "speakers: what somebody else's voice gets."
        ),
        columns=each("similarity_floor"),
    ),
}


class VoiceComparison:
    """Base of judges that compute an embedding of a voice."""

    def files(self, sample: ScoreRow) -> list[str]:
        """Return the files of the output and its prompt."""
        return [sample.audio, sample.prompt_audio] if sample.prompt_audio else [sample.audio]

    def score(self, samples: Sequence[ScoreRow], measured: Mapping[str, Any]) -> list[Columns]:
        """Return the columns `similarity` and `similarity_floor`."""
        prompts = {
            s.prompt_audio: s.voice
            for s in samples
            if s.prompt_audio and measured.get(s.prompt_audio)
        }
        embeddings = {path: np.asarray(measured[path]) for path in prompts}
        rows = []
        for sample in samples:
            output = measured.get(sample.audio)
            own = embeddings.get(sample.prompt_audio or "")
            others = [embeddings[path] for path, voice in prompts.items() if voice != sample.voice]
            row: Columns = {"similarity": None, "similarity_floor": None}
            if output is not None and own is not None:
                row["similarity"] = cosine(np.asarray(output), own)
                row["similarity_floor"] = _mean(
                    [cosine(np.asarray(output), other) for other in others]
                )
            rows.append(row)
        return rows


def pad_short(wave: Wave) -> Wave:
    """Append silence up to half a second: shorter waves have too few frames.

    X-vectors need 15 frames of 20 ms; ERes2Net's statistics of a single frame are NaN.
    """
    return np.pad(wave, (0, max(0, LEAST - len(wave))))


def to_numbers(embedding: Any) -> list[float]:
    """Convert an embedding of any array type to plain numbers of 7 digits, as they are cached."""
    return [round(float(value), 7) for value in np.asarray(embedding).reshape(-1)]


def cosine(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float | None:
    """Return the cosine of two vectors; None where one of them has no length."""
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / lengths if lengths else None


def _mean(values: list[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None
