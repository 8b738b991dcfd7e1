"""Read and write audio files as mono float32 waves in [-1, 1] at a requested rate."""

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from speculative_tts.files import write_atomic

SILENCE = 1e-4  # peak amplitude, about 3 steps of 16-bit audio
LOUDEST = 8.0  # 18 dB above full scale: no overshoot, but whole numbers as floating-point samples
SLOWEST = 4000  # samples a second; with fewer there is no speech
LONGEST_WAV = 2**31 - 37  # bytes; some players read the sizes of a header as signed
STREAMED = 2**31 - 2**16  # sizes from here on are placeholders of streams, not lengths
EDGE = 0.1  # seconds of silence that `without_edges` keeps

Wave = npt.NDArray[np.float32]  # [samples]


class UnfitWaveError(ValueError):
    """Raised for a recording that a codec cannot encode; a corpus or list skips it."""


def check_codes(codes: npt.NDArray[np.int64], n_codes: int) -> None:
    """Raise ValueError for a code that a codec of `n_codes` entries does not have."""
    if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < n_codes:
        raise ValueError(f"codes must lie in [0, {n_codes}); drop stop tokens first")


def read_wave(
    path: Path | str,
    sample_rate: int,
    start: float = 0.0,
    seconds: float | None = None,
    *,
    allow_empty: bool = False,
) -> Wave:
    """Read a file as a mono wave of `sample_rate`: channels are averaged, other rates resampled.

    `start` and `seconds` select a part of a long recording. Values beyond [-1, 1] are clipped.
    Raise ValueError when the file is missing, unreadable or holds no samples (unless
    `allow_empty`), and UnfitWaveError where some samples are NaN, infinite or far beyond full
    scale, or where channels in opposite phase leave silence.
    """
    with _opened(Path(path)) as file:
        rate = file.samplerate
        file.seek(min(round(start * rate), file.frames))
        frames = -1 if seconds is None else round(seconds * rate)
        wave = file.read(frames, dtype="float32", always_2d=True)
    if len(wave) == 0 and not allow_empty:
        raise ValueError(f"{path} holds no samples; give a recording of 1 to 10 seconds")
    mono = wave.mean(axis=1)
    if not np.isfinite(mono).all():
        raise UnfitWaveError(
            f"{path} holds samples that are NaN or infinite; give another recording"
        )
    if len(mono) and (peak := float(np.abs(mono).max())) > LOUDEST:
        raise UnfitWaveError(
            f"{path} holds samples of {peak:.0f}, and full scale is 1; divide them by 32768 (or "
            "whatever whole numbers they were) and write it again"
        )
    if len(mono) and is_silent(mono) and not all(map(is_silent, wave.T)):
        raise UnfitWaveError(
            f"the channels of {path} cancel each other out; give a recording of one channel"
        )
    if rate != sample_rate and len(mono):
        mono = soxr.resample(mono, rate, sample_rate)
    return np.asarray(np.clip(mono, -1.0, 1.0), dtype=np.float32)


def sample_rate_of(path: Path) -> int:
    """Return a file's sample rate; raise ValueError as `read_wave` does."""
    with _opened(path) as file:
        return int(file.samplerate)


@contextmanager
def _opened(path: Path) -> Iterator[soundfile.SoundFile]:
    """Open an audio file; what fails until it is closed is a ValueError that names it."""
    if not path.is_file():
        raise ValueError(f"audio file {path} not found; check the path")
    if lacks := missing_bytes(path):
        raise ValueError(
            f"{path} is cut short: its header states {lacks} bytes of samples more than the file "
            "holds; copy or record it again"
        )
    try:
        with soundfile.SoundFile(path) as file:
            if file.samplerate < SLOWEST:
                raise ValueError(
                    f"{path} has {file.samplerate} samples a second, below {SLOWEST:,}; give a "
                    "recording of 16,000 or more"
                )
            yield file
    except soundfile.LibsndfileError as error:
        raise ValueError(
            f"{path} is not readable audio ({error}); give a WAV or FLAC file"
        ) from error


def missing_bytes(path: Path) -> int:
    """Return how many bytes of samples a WAV file lacks by its own header; 0 for other files.

    libsndfile reads what is there of a file that was cut while it was copied, without a word. A
    stream's header states a placeholder, which is no length.
    """
    with path.open("rb") as file:
        riff = file.read(12)
        if riff[:4] != b"RIFF" or riff[8:] != b"WAVE":
            return 0
        while len(head := file.read(8)) == 8:
            name, size = struct.unpack("<4sI", head)
            if name == b"data":
                held = path.stat().st_size - file.tell()
                return 0 if size >= STREAMED else max(0, size - held)
            file.seek(size + size % 2, io.SEEK_CUR)
    return 0


def readable(path: Path, seconds: float | None = None) -> bool:
    """Return True for audio by its header, and of at least `seconds` if given."""
    length = duration(path)
    return length is not None and length >= (seconds or 0.0)


def duration(path: Path) -> float | None:
    """Return the seconds of an audio file by its header; None if it cannot be read.

    A file emptied by accident, or cut by a power failure, cannot.
    """
    try:
        whole = path.is_file() and not missing_bytes(path)
        return float(soundfile.info(path).duration) if whole else None
    except soundfile.LibsndfileError:
        return None


def is_silent(wave: Wave) -> bool:
    """Return True for a wave without sound: silence, or a constant voltage."""
    return not len(wave) or float(min(np.ptp(wave), np.abs(wave).max())) < SILENCE


def without_edges(wave: Wave, sample_rate: int) -> Wave:
    """Trim the silence before and after the speech to `EDGE`.

    A stretch of 10 ms is silent if its power is 40 dB below the loudest. A silent wave is
    unchanged.
    """
    size = sample_rate // 100
    power = np.square(wave[: len(wave) // size * size]).reshape(-1, size).mean(axis=1)
    loud = np.flatnonzero(power > 1e-4 * power.max(initial=0.0))
    if not len(loud):
        return wave
    edge = round(EDGE * sample_rate)
    return wave[max(0, loud[0] * size - edge) : (loud[-1] + 1) * size + edge]


class WaveWriter:
    """Write 16-bit samples to a binary file as they come, clipping values beyond [-1, 1].

    The wav header (none if `raw`) first states the largest length, as in streams; `close` replaces
    it by the true one where the file can be rewound.
    """

    def __init__(self, file: IO[bytes], sample_rate: int, *, raw: bool = False) -> None:
        self._file, self._rate, self._raw, self._bytes = file, sample_rate, raw, 0
        if not raw:
            file.write(self._header(LONGEST_WAV))

    def write(self, wave: Wave) -> None:
        """Write samples, those that `write_wave` writes, and flush them at once."""
        data = _in_16_bits(wave, self._rate, format="RAW", endian="LITTLE")
        self._file.write(data)
        self._file.flush()
        self._bytes += len(data)

    def close(self) -> None:
        """Write the true length into the header."""
        if not self._raw and self._file.seekable():
            self._file.seek(0)
            self._file.write(self._header(self._bytes))
            self._file.flush()

    def _header(self, size: int) -> bytes:
        form = struct.pack("<IHHIIHH", 16, 1, 1, self._rate, 2 * self._rate, 2, 16)
        riff = struct.pack("<I", size + 36)
        return b"RIFF" + riff + b"WAVEfmt " + form + b"data" + struct.pack("<I", size)


def _clipped(wave: Wave) -> Wave:
    """Return a wave within [-1, 1]; ValueError for NaN, which 16 bits would hold as a sound."""
    if not np.isfinite(wave).all():
        raise ValueError(
            "the codec gave samples that are NaN or infinite; look for NaN in its weights"
        )
    return np.clip(wave, -1, 1)


def wav_bytes(wave: Wave, sample_rate: int) -> bytes:
    """Return a wav of 16-bit PCM; values beyond [-1, 1] are clipped."""
    return _in_16_bits(wave, sample_rate, format="WAV")


def _in_16_bits(wave: Wave, sample_rate: int, **container: str) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, _clipped(wave), sample_rate, subtype="PCM_16", **container)
    return buffer.getvalue()


def write_wave(path: Path, wave: Wave, sample_rate: int) -> None:
    """Write a wav atomically."""
    write_atomic(path, wav_bytes(wave, sample_rate))
