"""Audio as every judge hears it: mono float32 at 16 kHz."""

from pathlib import Path

import numpy as np
import soundfile

from speculative_tts.codecs.audio import SILENCE, Wave, read_wave

__all__ = ["Wave"]

SAMPLE_RATE = 16_000
SHORTEST = 400  # samples (25 ms): below one analysis window there is nothing to judge


def load_wave(path: Path) -> Wave:
    """Samples of an audio file, perhaps none; ValueError when it is missing or is not audio."""
    return read_wave(path, SAMPLE_RATE, allow_empty=True)


def seconds(path: Path) -> float | None:
    """Duration of an audio file by its header, in seconds; None when there is no readable file."""
    try:
        header = soundfile.info(str(path))
    except (soundfile.LibsndfileError, FileNotFoundError):
        return None
    return float(header.frames / header.samplerate)


def flags_of(wave: Wave) -> list[str]:
    """What is wrong with a wave by itself: `empty_audio` or `silent_audio`."""
    if len(wave) < SHORTEST:
        return ["empty_audio"]
    return ["silent_audio"] if float(np.abs(wave).max()) < SILENCE else []
