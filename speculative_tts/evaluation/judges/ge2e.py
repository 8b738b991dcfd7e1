"""Compare voices by GE2E embeddings (Wan et al., ICASSP 2018), with Resemblyzer's weights.

They were trained on LibriSpeech-other, VoxCeleb 1 and 2, and are read from the installed wheel
without importing it, since its dependencies no longer install everywhere. Features are computed
here; its silence trimming is left out (on 57 LibriTTS clips: same speaker 0.88, different 0.55,
against 0.86 and 0.54).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from speculative_tts.evaluation.audio import Wave
from speculative_tts.evaluation.features import mel_power
from speculative_tts.evaluation.judge import Measure
from speculative_tts.evaluation.local_model import WheelModel
from speculative_tts.evaluation.similarity import FLOOR, VoiceComparison, to_numbers
from speculative_tts.evaluation.weights import WheelFile

WEIGHTS = WheelFile("resemblyzer", "pretrained.pt")
LEVEL = -30.0  # dBFS; quieter audio is amplified to it
FRAMES = 160  # frames of one window (1.6 s)
HOP = 160  # samples per frame
STEP = 77  # frames between windows (1.3 windows per second)
COVERAGE = 0.75  # share of the last window that must be audio


@dataclass(frozen=True)
class Ge2e(VoiceComparison, WheelModel):
    """GE2E speaker encoder."""

    id: ClassVar = "ge2e"
    packages: ClassVar = ("resemblyzer", "torch")
    remedy: ClassVar = (
        "speaker similarity needs Resemblyzer's weights; pip install --no-deps resemblyzer"
    )

    @property
    def options(self) -> dict[str, Any]:
        """Weights and options of the front end."""
        return {"weights_sha256": WEIGHTS.fingerprint(), "silence_trimming": False, "floor": FLOOR}

    def load(self) -> Measure:
        """Load the model as a function from a wave to its embedding (256 numbers, unit length)."""
        return load_encoder()


def window_starts(samples: int) -> list[int]:
    """Return the windows' first frames; the last window is left out when under 3/4 audio."""
    frames = -(-(samples + 1) // HOP)
    starts = list(range(0, max(1, frames - FRAMES + STEP + 1), STEP))
    covered = (samples - starts[-1] * HOP) / (FRAMES * HOP)
    return starts[:-1] if covered < COVERAGE and len(starts) > 1 else starts


def windows(wave: Wave) -> npt.NDArray[np.float32]:
    """Return a wave's mel windows, padded to fill the last: [windows, 160 frames, 40 mels]."""
    level = 20.0 * np.log10(max(float(np.sqrt(np.mean(np.square(wave, dtype=np.float64)))), 1e-10))
    if level < LEVEL:
        wave = (wave * 10.0 ** ((LEVEL - level) / 20.0)).astype(np.float32)
    starts = window_starts(len(wave))
    end = (starts[-1] + FRAMES) * HOP
    mels = mel_power(np.pad(wave, (0, max(0, end - len(wave)))), fft=400, hop=HOP, mels=40)
    return np.stack([mels[start : start + FRAMES] for start in starts]).astype(np.float32)


def load_encoder() -> Callable[[Wave], list[float]]:
    """Load the encoder as a function from a wave to its embedding."""
    import torch

    checkpoint = torch.load(WEIGHTS.path(), map_location="cpu", weights_only=True)
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
        return to_numbers(mean)

    return embed
