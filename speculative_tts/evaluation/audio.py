"""Audio as every judge hears it: mono float32 at 16 kHz."""

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

Wave = npt.NDArray[np.float32]

SAMPLE_RATE = 16_000
SHORTEST = 400  # samples (25 ms): below one analysis window there is nothing to judge
SILENCE = 1e-4  # peak amplitude, about 3 steps of 16-bit audio


def load_wave(path: Path) -> Wave:
    """Samples of an audio file, shape [samples], channels averaged, 16 kHz, clipped to [-1, 1].

    A file that is not audio raises ValueError; a missing one FileNotFoundError.
    """
    if not path.is_file():
        raise FileNotFoundError(f"audio file {path} not found")
    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise ValueError(f"audio file {path} cannot be read: {error.error_string}") from error
    mono = samples.mean(axis=1)
    if rate != SAMPLE_RATE and len(mono):
        mono = np.asarray(soxr.resample(mono, rate, SAMPLE_RATE))
    return np.asarray(np.clip(np.nan_to_num(mono), -1.0, 1.0), dtype=np.float32)


def seconds(path: Path) -> float | None:
    """Duration of an audio file by its header, in seconds; None when there is no readable file."""
    try:
        header = soundfile.info(str(path))
    except (soundfile.LibsndfileError, FileNotFoundError):
        return None
    return float(header.frames / header.samplerate)


def digest(path: Path) -> str:
    """Sha256 of a file's bytes, in hex: what cached measurements are keyed by."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flags_of(wave: Wave) -> list[str]:
    """What is wrong with a wave by itself: `empty_audio` or `silent_audio`."""
    if len(wave) < SHORTEST:
        return ["empty_audio"]
    return ["silent_audio"] if float(np.abs(wave).max()) < SILENCE else []
