"""Rate naturalness by DNSMOS P.808 (Reddy et al., ICASSP 2021), the speechmos wheel's ONNX model.

The wheel is not imported (it needs librosa); its model file is read and its features are computed
here. As in the wheel, audio shorter than 9.01 s is repeated, and the scores of windows one second
apart are averaged.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from speculative_tts.evaluation.audio import SAMPLE_RATE, Wave
from speculative_tts.evaluation.features import Array, mel_power
from speculative_tts.evaluation.judge import Measure, Opinion
from speculative_tts.evaluation.local_model import WheelModel
from speculative_tts.evaluation.metric import opinion
from speculative_tts.evaluation.weights import WheelFile

MODEL = WheelFile("speechmos", "dnsmos_models/model_v8.onnx")
WINDOW_SECONDS = 9.01
HOP = 160  # samples per frame
DYNAMIC_RANGE = 80.0  # dB below the loudest bin

METRICS = {"dnsmos": opinion("dnsmos", "DNSMOS", "dnsmos-p808", "P.808")}


@dataclass(frozen=True)
class Dnsmos(Opinion, WheelModel):
    """DNSMOS P.808 opinion score, 1 to 5."""

    metric: ClassVar = "dnsmos"
    id: ClassVar = "dnsmos-p808"
    packages: ClassVar = ("speechmos", "onnxruntime")
    remedy: ClassVar = (
        "DNSMOS needs the speechmos wheel and onnxruntime; pip install speechmos onnxruntime"
    )

    @property
    def options(self) -> dict[str, Any]:
        """Hash of the model file."""
        return {"model_sha256": MODEL.fingerprint()}

    def load(self) -> Measure:
        """Load the model as a function from a wave to its score."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # parallel by processes
        options.log_severity_level = 3
        path = str(MODEL.path())
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

        def measure(wave: Wave) -> float:
            return round(float(np.mean(session.run(None, {"input_1": windows(wave)})[0])), 6)

        return measure


def windows(wave: Wave) -> npt.NDArray[np.float32]:
    """Return a wave's log-mel windows, scaled as in training: [windows, 900 frames, 120 mels]."""
    length = int(WINDOW_SECONDS * SAMPLE_RATE)
    alone = len(wave)
    while len(wave) < length:
        wave = np.concatenate([wave, wave])
    hops = int(len(wave) // SAMPLE_RATE - WINDOW_SECONDS) + 1
    starts = [at for at in range(0, hops * SAMPLE_RATE, SAMPLE_RATE) if at + length <= len(wave)]
    whole = _repeated(wave, alone)
    cut = [_of_window(whole, wave[at : at + length - HOP], at) for at in starts]
    return np.stack([log_mel(power) for power in cut]).astype(np.float32)


def _repeated(wave: Wave, period: int) -> Array:
    """Return the mel power of a repeating wave, except at its ends, from one period's frames."""
    if period % HOP or len(wave) < 3 * period:
        return mels(wave)
    once, first = period // HOP, mels(wave[: 2 * period + HOP])
    return first[once + np.arange(len(wave) // HOP + 1) % once]


def _of_window(whole: Array, window: Wave, start: int) -> Array:
    """Return the mel power of a window of a wave, reusing `whole` except at the window's ends.

    Windows overlap by eight ninths. Only the frames at their ends differ from the wave's: they see
    the silence around the window.
    """
    first = start // HOP
    power = whole[first : first + len(window) // HOP].copy()
    power[0] = mels(window[: 2 * HOP])[0]
    power[-1] = mels(window[-2 * HOP :])[1]
    return power


def mels(wave: Wave) -> Array:
    """Return the mel power, shape [frames, 120 mels]."""
    return mel_power(wave, fft=321, hop=HOP, mels=120)


def log_mel(power: Array) -> Array:
    """Convert mel power to dB below its maximum, cut at -80, as (dB + 40) / 40."""
    power = np.maximum(power, 1e-10)
    decibel = 10.0 * np.log10(power / power.max())
    return np.asarray((np.maximum(decibel, -DYNAMIC_RANGE) + 40.0) / 40.0)
