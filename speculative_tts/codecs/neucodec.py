"""Provide NeuCodec, the codec of NeuTTS: X-Codec2's codes with a decoder of 24 kHz.

transformers runs it, from the checkpoint `neuphonic/neucodec` in its form; nothing is downloaded.
"""

from typing import Any

import numpy as np
import soxr

from speculative_tts.codecs.audio import Wave
from speculative_tts.codecs.pieces import Windowed
from speculative_tts.codecs.xcodec2 import INPUT_RATE, Xcodec2


class NeuCodec(Xcodec2):
    """NeuCodec, with waves of 24 kHz on both sides; the encoder reads them at 16 kHz."""

    margin = 0
    model_class, model_type = "NeuCodecModel", "neucodec"
    download = "neuphonic/neucodec"

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.sample_rate = int(model.config.output_sampling_rate)

    def decode_as(self, codes: np.ndarray, prompt_codes: np.ndarray) -> Wave:  # noqa: ARG002
        """Decode the codes alone: NeuTTS's authors do not put the prompt's codes before them."""
        return self.decode(codes)

    def speaking(self, prompt_codes: np.ndarray, chunk: int | None = None) -> Windowed:
        """Start an utterance in pieces, without a prompt before it."""
        return super().speaking(prompt_codes[:0], chunk)

    def _input(self, wave: Wave) -> Wave:
        return np.asarray(soxr.resample(wave, self.sample_rate, INPUT_RATE), dtype=np.float32)
