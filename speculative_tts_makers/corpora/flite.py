"""Speak strings of words with Flite, and compute where each word is.

Flite prints the end time of every segment it speaks (`-psdur`); with the number of segments of each
word, asked for once per voice, these become exact word boundaries.  Debian package: `flite`.
"""

import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import soundfile

from speculative_tts.codecs.world import SAMPLE_RATE, Wave

WORDS = (
    *("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india"),
    *("juliet", "kilo", "lima", "mike", "november", "oscar", "papa", "quebec", "romeo"),
    *("sierra", "tango", "uniform", "victor", "whiskey", "yankee", "zulu"),
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
)
VOICE_GAIN = {"slt": 0.73, "rms": 1.1, "awb": 0.91, "kal16": 2.2}
"""Gain that brings each voice to about 0.1 root mean square."""

PAUSE = "pau"


@dataclass(frozen=True)
class SpokenPhrase:
    """Speech with word boundaries in seconds; silent outside `start` to `word_ends[-1]`."""

    wave: Wave
    start: float
    word_ends: tuple[float, ...]


def speak(words: tuple[str, ...], voice: str, duration_stretch: float) -> SpokenPhrase:
    """Speak `words` as one connected phrase; `duration_stretch` > 1 is slower."""
    counts = [_segment_count(word, voice) for word in words]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "speech.wav"
        segments = _run_flite(" ".join(words), voice, duration_stretch, path)
        wave = _read_speech(path, voice)
    start, ends = word_times(segments, counts)
    return SpokenPhrase(wave, start, ends)


@dataclass(frozen=True)
class SpokenText:
    """Speech of a text: its phones, pauses included, and the second at which each ends."""

    wave: Wave
    phones: tuple[str, ...]
    ends: tuple[float, ...]


def speak_text(text: str, voice: str) -> SpokenText:
    """Speak any text; a pause is the phone `PAUSE`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "speech.wav"
        segments = _run_flite(text, voice, 1.0, path)
        wave = _read_speech(path, voice)
    phones, ends = zip(*segments, strict=True)
    return SpokenText(wave, phones, ends)


def _read_speech(path: Path, voice: str) -> Wave:
    """Read what Flite wrote, at the level all voices are brought to."""
    wave, rate = soundfile.read(path, dtype="float32")
    if rate != SAMPLE_RATE:
        raise ValueError(f"voice {voice!r} speaks at {rate} Hz; a voice of {SAMPLE_RATE} is needed")
    level: Wave = (wave * VOICE_GAIN[voice]).astype(np.float32)
    return level


def word_times(
    segments: list[tuple[str, float]], counts: list[int]
) -> tuple[float, tuple[float, ...]]:
    """Return the first word's start and each word's end, from (phone, end time) and phone counts.

    A pause inside the phrase belongs to the word before it.
    """
    spoken = [(phone, end) for phone, end in segments if phone != PAUSE]
    if len(spoken) != sum(counts):
        raise ValueError(f"{len(spoken)} phones spoken, {sum(counts)} expected: {segments}")
    start = segments[0][1] if segments[0][0] == PAUSE else 0.0
    last_phones = np.cumsum(counts) - 1
    return start, tuple(spoken[index][1] for index in last_phones)


@cache
def _segment_count(word: str, voice: str) -> int:
    segments = _run_flite(word, voice, 1.0, None)
    return sum(phone != PAUSE for phone, _ in segments)


def _run_flite(
    text: str, voice: str, duration_stretch: float, path: Path | None
) -> list[tuple[str, float]]:
    """Run Flite; return (phone, end time in seconds) of each segment."""
    stretch = f"duration_stretch={duration_stretch:.4f}"
    output = str(path) if path is not None else "none"
    command = ["flite", "-voice", voice, "--setf", stretch, "-psdur", "-o", output, "-t", text]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise FileNotFoundError("flite is not installed; try: apt-get install flite") from error
    pairs = (item.rsplit(":", 1) for item in done.stdout.split())
    return [(phone, float(end)) for phone, end in pairs]
