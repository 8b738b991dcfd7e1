"""Provide NeuCodec, the codec of NeuTTS: X-Codec2's codes with a decoder of 24 kHz.

transformers runs it, from the checkpoint `neuphonic/neucodec` in its form; nothing is downloaded.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr

from speculative_tts.codecs.audio import Wave
from speculative_tts.codecs.pieces import Windowed
from speculative_tts.codecs.xcodec2 import INPUT_RATE, Xcodec2, read_model


@dataclass(frozen=True)
class NeuCodec(Xcodec2):
    """NeuCodec, with waves of 24 kHz on both sides; the encoder reads them at 16 kHz."""

    margin = 0
    model_type = "neucodec"
    download = "neuphonic/neucodec"

    @classmethod
    def load(cls, folder: Path) -> "NeuCodec":
        """Read a local checkpoint folder; raise ValueError saying what was looked for."""
        return cls(read_model(folder, "NeuCodecModel", cls.model_type, cls.download))

    @property
    def sample_rate(self) -> int:
        """Samples per second of waves, in and out."""
        return int(self.model.config.output_sampling_rate)

    def decode_as(self, codes: np.ndarray, prompt_codes: np.ndarray) -> Wave:  # noqa: ARG002
        """Decode the codes alone: NeuTTS's authors do not put the prompt's codes before them."""
        return self.decode(codes)

    def speaking(self, prompt_codes: np.ndarray, chunk: int | None = None) -> Windowed:
        """Start an utterance in pieces, without a prompt before it."""
        return super().speaking(prompt_codes[:0], chunk)

    def _input(self, wave: Wave) -> Wave:
        return np.asarray(soxr.resample(wave, self.sample_rate, INPUT_RATE), dtype=np.float32)
