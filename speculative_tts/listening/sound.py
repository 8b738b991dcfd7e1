"""Prepare clips for raters: equal loudness, and the degraded sounds of checks."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from speculative_tts.codecs.audio import SILENCE, Wave, read_wave, sample_rate_of

BLOCK = 0.4  # seconds over which BS.1770 measures
PEAK = 0.98  # largest sample value in a test
HALF_SECOND = 0.5  # seconds of silence for a system that said nothing
MNRU_DB = 0.0  # signal to modulated noise of the low check: ITU-T P.810's worst
RAISED = 1.5  # factor by which the low check raises another speaker's voice


@dataclass(frozen=True)
class Sound:
    """A wave and its sample rate."""

    wave: Wave
    rate: int

    @property
    def peak(self) -> float:
        """The largest absolute sample."""
        return float(np.abs(self.wave).max(initial=0.0))

    def gain(self, loudness: float) -> float:
        """Return the gain that reaches a loudness in LUFS (ITU-R BS.1770); 1 for silence."""
        import pyloudnorm

        if self.peak < SILENCE:
            return 1.0
        wave = np.asarray(self.wave, dtype=np.float64)
        block = min(BLOCK, len(wave) / self.rate)
        measured = pyloudnorm.Meter(self.rate, block_size=block).integrated_loudness(wave)
        return float(10 ** ((loudness - measured) / 20)) if np.isfinite(measured) else 1.0

    def times(self, gain: float) -> "Sound":
        """Return the sound multiplied by a gain."""
        return Sound((self.wave * gain).astype(np.float32), self.rate)


def load(path: Path) -> Sound:
    """Load a file at its own rate; one without samples becomes half a second of silence."""
    wave = read_wave(path, rate := sample_rate_of(path), allow_empty=True)
    return Sound(wave if len(wave) else np.zeros(int(HALF_SECOND * rate), np.float32), rate)


def corrupted(sound: Sound, rng: np.random.Generator) -> Sound:
    """Add noise as loud as the speech that follows its envelope (MNRU, ITU-T P.810)."""
    noise = rng.standard_normal(len(sound.wave)) * 10 ** (-MNRU_DB / 20)
    return Sound((sound.wave * (1 + noise)).astype(np.float32), sound.rate)


def raised(sound: Sound) -> Sound:
    """Raise pitch and speed so far that the speaker is unrecognisable."""
    import soxr

    wave = soxr.resample(sound.wave, sound.rate * RAISED, sound.rate)
    return Sound(np.asarray(wave, dtype=np.float32), sound.rate)
