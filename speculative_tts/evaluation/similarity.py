"""Speaker similarity: cosine between GE2E embeddings of the output and of its own voice prompt.

Weights are those of Resemblyzer (Wan et al., 2018, trained on LibriSpeech-other, VoxCeleb 1 and
2), read from the installed wheel without importing it, since its dependencies no longer install
everywhere. Features are computed here; its silence trimming is left out (on 57 LibriTTS clips:
same speaker 0.88, different 0.55, against 0.86 and 0.54). The floor is the mean cosine of an
output to the prompts of the other speakers of its list: what a similarity of "somebody else" looks
like.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from speculative_tts.evaluation.audio import Wave, digest
from speculative_tts.evaluation.features import mel_power
from speculative_tts.evaluation.judge import (
    Columns,
    Measure,
    Sample,
    installed,
    package_file,
    package_version,
)

WEIGHTS = "pretrained.pt"
LEVEL = -30.0  # dBFS; quieter audio is raised to it
FRAMES = 160  # frames of one window (1.6 s)
HOP = 160  # samples a frame
STEP = 77  # frames between windows (1.3 windows a second)
COVERAGE = 0.75  # share of the last window that must be audio


@functools.cache
def weights_hash() -> str:
    """First 12 hex digits of the weight file's sha256."""
    return digest(package_file("resemblyzer", WEIGHTS))[:12]


@dataclass(frozen=True)
class Similarity:
    """GE2E speaker encoder."""

    @property
    def id(self) -> str:
        """Judge id."""
        return "ge2e"

    @property
    def version(self) -> str:
        """Version of the Resemblyzer wheel."""
        return package_version("resemblyzer")

    @property
    def options(self) -> dict[str, Any]:
        """Weights and front end."""
        return {
            "weights_sha256": weights_hash(),
            "silence_trimming": False,
            "floor": "other speakers' prompts",
        }

    def missing(self) -> str | None:
        """Needs torch and the weight file of Resemblyzer's wheel."""
        if installed("torch", "resemblyzer"):
            return None
        return "speaker similarity needs Resemblyzer's weights; pip install --no-deps resemblyzer"

    def files(self, sample: Sample) -> list[str]:
        """The output and its prompt."""
        return [sample.audio, sample.prompt_audio] if sample.prompt_audio else [sample.audio]

    def load(self) -> Measure:
        """A function from a wave to its embedding (256 numbers, unit length)."""
        return load_encoder()

    def score(self, samples: Sequence[Sample], measured: Mapping[str, Any]) -> list[Columns]:
        """Columns `similarity` and `similarity_floor`."""
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


def cosine(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float:
    """Cosine of two vectors."""
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def window_starts(samples: int) -> list[int]:
    """First frames of the windows over a wave; the last is left out when under 3/4 audio."""
    frames = -(-(samples + 1) // HOP)
    starts = list(range(0, max(1, frames - FRAMES + STEP + 1), STEP))
    covered = (samples - starts[-1] * HOP) / (FRAMES * HOP)
    return starts[:-1] if covered < COVERAGE and len(starts) > 1 else starts


def windows(wave: Wave) -> npt.NDArray[np.float32]:
    """Mel windows of a wave padded to fill the last, shape [windows, 160 frames, 40 mels]."""
    level = 20.0 * np.log10(max(float(np.sqrt(np.mean(np.square(wave, dtype=np.float64)))), 1e-10))
    if level < LEVEL:
        wave = (wave * 10.0 ** ((LEVEL - level) / 20.0)).astype(np.float32)
    starts = window_starts(len(wave))
    end = (starts[-1] + FRAMES) * HOP
    mels = mel_power(np.pad(wave, (0, max(0, end - len(wave)))), fft=400, hop=HOP, mels=40)
    return np.stack([mels[start : start + FRAMES] for start in starts]).astype(np.float32)


def load_encoder() -> Callable[[Wave], list[float]]:
    """The encoder as a function from a wave to its embedding."""
    import torch

    checkpoint = torch.load(
        package_file("resemblyzer", WEIGHTS), map_location="cpu", weights_only=True
    )
    state = checkpoint["model_state"]
    lstm = torch.nn.LSTM(40, 256, 3, batch_first=True)
    linear = torch.nn.Linear(256, 256)
    lstm.load_state_dict(
        {k.removeprefix("lstm."): v for k, v in state.items() if k.startswith("lstm.")}
    )
    linear.load_state_dict(
        {k.removeprefix("linear."): v for k, v in state.items() if k.startswith("linear.")}
    )

    @torch.inference_mode()
    def embed(wave: Wave) -> list[float]:
        _, (hidden, _) = lstm(torch.from_numpy(windows(wave)))
        parts = torch.nn.functional.normalize(torch.relu(linear(hidden[-1])), dim=1)
        mean = torch.nn.functional.normalize(parts.mean(dim=0), dim=0)
        return [round(float(value), 7) for value in mean]

    return embed
