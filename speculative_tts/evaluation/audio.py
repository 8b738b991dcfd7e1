"""Load audio for judges: mono float32 at 16 kHz."""

from pathlib import Path

import soundfile

from speculative_tts.codecs.audio import Wave, is_silent, read_wave

__all__ = ["Wave"]

SAMPLE_RATE = 16_000
SHORTEST = 400  # samples (25 ms): one analysis window, below which nothing can be judged


def load_wave(path: Path | str) -> Wave:
    """Load an audio file's samples, perhaps none; raise ValueError if it is missing or no audio."""
    return read_wave(path, SAMPLE_RATE, allow_empty=True)


def seconds(path: Path) -> float | None:
    """Return an audio file's duration by its header, in seconds; None if it cannot be read."""
    try:
        header = soundfile.info(str(path))
    except (soundfile.LibsndfileError, FileNotFoundError):
        return None
    return float(header.frames / header.samplerate)


def flags_of(wave: Wave) -> list[str]:
    """Return the flags of a wave: `empty_audio`, `silent_audio` or none."""
    if len(wave) < SHORTEST:
        return ["empty_audio"]
    return ["silent_audio"] if is_silent(wave) else []
