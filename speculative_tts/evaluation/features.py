"""Compute mel spectrograms in numpy, equal to librosa's defaults.

Slaney's scale and norm, a periodic Hann window, centred frames padded with zeros. The filters of
transformers stand at the bins of an even transform, and DNSMOS has one of 321 samples.
"""

import functools

import numpy as np
import numpy.typing as npt

from speculative_tts.evaluation.audio import SAMPLE_RATE, Wave

Array = npt.NDArray[np.float64]


@functools.cache
def mel_filters(fft: int, mels: int) -> Array:
    """Return triangular filters of unit area from 0 to 8 kHz, shape [mels, fft // 2 + 1]."""
    from transformers.audio_utils import hertz_to_mel, mel_to_hertz

    top = hertz_to_mel(SAMPLE_RATE / 2.0, mel_scale="slaney")
    edges = np.asarray(mel_to_hertz(np.linspace(0.0, top, mels + 2), mel_scale="slaney"))
    bins = np.fft.rfftfreq(fft, 1.0 / SAMPLE_RATE)
    widths = np.diff(edges)
    ramps = edges[:, None] - bins[None, :]
    rising = -ramps[:-2] / widths[:-1, None]
    falling = ramps[2:] / widths[1:, None]
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    return np.asarray(triangles * (2.0 / (edges[2:] - edges[:-2]))[:, None])


def mel_power(wave: Wave, fft: int, hop: int, mels: int) -> Array:
    """Return the mel power spectrogram of a 16 kHz wave, shape [1 + samples // hop, mels]."""
    padded = np.pad(wave.astype(np.float64), fft // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, fft)[::hop]
    window = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(fft) / fft)
    power = np.abs(np.fft.rfft(frames * window)) ** 2
    return np.asarray(power @ mel_filters(fft, mels).T)
