"""Cut WORLD frames, and warp them to another speaker."""

import numpy as np
from jaxtyping import Float64
from numpy.typing import NDArray

from speculative_tts.codecs.world import WorldFrames


def crop(frames: WorldFrames, start: int, stop: int) -> WorldFrames:
    """Return the frames from `start` up to `stop`."""
    return WorldFrames(
        frames.f0[start:stop], frames.envelope[start:stop], frames.aperiodicity[start:stop]
    )


def warp(
    frames: WorldFrames, formant_scale: float, pitch_scale: float, pitch_range: float = 1.0
) -> WorldFrames:
    """Warp to another speaker: stretch the spectral envelope along frequency, and scale F0.

    `formant_scale` > 1 moves formants up (a shorter vocal tract); `pitch_range` scales the log-F0
    excursions around the utterance's own mean.
    """
    voiced = frames.f0 > 0
    f0 = np.zeros_like(frames.f0)
    if voiced.any():
        log_f0 = np.log(frames.f0[voiced])
        mean = log_f0.mean()
        f0[voiced] = np.exp(mean + pitch_range * (log_f0 - mean)) * pitch_scale
    if formant_scale == 1.0:
        return WorldFrames(f0, frames.envelope, frames.aperiodicity)
    log_envelope = np.log(np.maximum(frames.envelope, 1e-16))
    return WorldFrames(
        f0,
        np.exp(_stretch_bins(log_envelope, formant_scale)),
        np.clip(_stretch_bins(frames.aperiodicity, formant_scale), 0.0, 1.0),
    )


def _stretch_bins(
    values: Float64[np.ndarray, "n bins"], scale: float
) -> Float64[np.ndarray, "n bins"]:
    """Read bin k of `values` from k / scale by linear interpolation."""
    last = values.shape[1] - 1
    position = np.minimum(np.arange(last + 1) / scale, last)
    left = np.minimum(position.astype(np.int64), last - 1)
    fraction = position - left
    between: NDArray[np.float64] = (1 - fraction) * values[:, left] + fraction * values[:, left + 1]
    return between
