"""Analyse and synthesise 16 kHz speech by WORLD.

A frame is 10 ms.  `WorldFrames` keeps the full spectral envelope;
`frame_features` and `frames_from_features` reduce it to the 27 numbers that codecs quantise.

pyworld is imported on first use: only making and hearing audio needs it.
"""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy.typing import NDArray

SAMPLE_RATE = 16_000
FRAME_SECONDS = 0.010
SAMPLES_PER_FRAME = 160
N_CEPSTRA = 24
N_FEATURES = N_CEPSTRA + 3
"""Mel-cepstra, then log F0 (0 where unvoiced), voicing (0 or 1) and band aperiodicity (dB)."""

FFT_SIZE = 1024
F0_FLOOR, F0_CEILING = 60.0, 500.0
REFERENCE_F0 = 130.0
"""log F0 is stored relative to this, so that 0 is both "unvoiced" and an ordinary pitch."""

Wave = NDArray[np.float32]


@dataclass(frozen=True)
class WorldFrames:
    """WORLD parameters of an utterance; `n` frames of 10 ms."""

    f0: Float64[np.ndarray, " n"]
    envelope: Float64[np.ndarray, "n 513"]
    aperiodicity: Float64[np.ndarray, "n 513"]


@cache
def load_pyworld() -> Any:
    """Import pyworld, which warns about (and needs) `pkg_resources`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("pyworld")
    except ImportError as error:
        message = (
            "the tiny codec needs pyworld and setuptools<81; "
            "install them with: pip install 'speculative_tts[tiny]'"
        )
        raise ImportError(message) from error


def analyse(wave: Wave) -> WorldFrames:
    """Analyse a 16 kHz wave in [-1, 1]: one frame per full 10 ms."""
    world = load_pyworld()
    samples = np.ascontiguousarray(wave, dtype=np.float64)
    raw_f0, times = world.dio(
        samples,
        SAMPLE_RATE,
        f0_floor=F0_FLOOR,
        f0_ceil=F0_CEILING,
        frame_period=1000 * FRAME_SECONDS,
    )
    f0 = world.stonemask(samples, raw_f0, times, SAMPLE_RATE)
    envelope = world.cheaptrick(samples, f0, times, SAMPLE_RATE, fft_size=FFT_SIZE)
    aperiodicity = world.d4c(samples, f0, times, SAMPLE_RATE, fft_size=FFT_SIZE)
    n = len(samples) // SAMPLES_PER_FRAME
    return WorldFrames(f0[:n], envelope[:n], aperiodicity[:n])


def synthesise(frames: WorldFrames) -> Wave:
    """Synthesise `n` frames to exactly `160 n` samples, clipped to [-1, 1]."""
    world = load_pyworld()
    wave = world.synthesize(
        np.ascontiguousarray(frames.f0),
        np.ascontiguousarray(frames.envelope),
        np.ascontiguousarray(frames.aperiodicity),
        SAMPLE_RATE,
        1000 * FRAME_SECONDS,
    )
    length = len(frames.f0) * SAMPLES_PER_FRAME
    padded = np.zeros(length, dtype=np.float32)
    padded[: min(length, len(wave))] = wave[:length]
    return np.clip(padded, -1.0, 1.0)


def frame_features(frames: WorldFrames) -> Float64[np.ndarray, "n 27"]:
    """Reduce frames to the 27 numbers that codecs quantise."""
    world = load_pyworld()
    cepstra = world.code_spectral_envelope(
        np.ascontiguousarray(frames.envelope), SAMPLE_RATE, N_CEPSTRA
    )
    bands = world.code_aperiodicity(np.ascontiguousarray(frames.aperiodicity), SAMPLE_RATE)
    voiced = (frames.f0 > 0).astype(np.float64)
    log_f0 = np.log(np.where(frames.f0 > 0, frames.f0, REFERENCE_F0) / REFERENCE_F0)
    return np.concatenate([cepstra, log_f0[:, None], voiced[:, None], bands[:, :1]], axis=1)


def frames_from_features(features: Float64[np.ndarray, "n 27"]) -> WorldFrames:
    """Invert `frame_features`, up to its loss.

    Features may be averages: log F0 is divided by the voicing it was averaged with.
    """
    world = load_pyworld()
    voicing = features[:, N_CEPSTRA + 1]
    voiced = voicing > 0.5
    log_f0 = features[:, N_CEPSTRA] / np.where(voiced, voicing, 1.0)
    f0 = np.where(voiced, np.clip(REFERENCE_F0 * np.exp(log_f0), F0_FLOOR, F0_CEILING), 0.0)
    bands = np.minimum(features[:, N_CEPSTRA + 2 :], 0.0)
    envelope = world.decode_spectral_envelope(
        np.ascontiguousarray(features[:, :N_CEPSTRA]), SAMPLE_RATE, FFT_SIZE
    )
    aperiodicity = world.decode_aperiodicity(np.ascontiguousarray(bands), SAMPLE_RATE, FFT_SIZE)
    aperiodicity[~voiced] = 1.0 - 1e-12
    return WorldFrames(f0, envelope, aperiodicity)
