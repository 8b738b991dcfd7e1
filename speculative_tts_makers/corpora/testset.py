"""Write a fixed evaluation list: JSONL rows with voice prompts and reference recordings.

Prompts are FLAC (lossless: they are encoded again at every run); references are Ogg Vorbis.
"""

import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import soundfile

from speculative_tts.codecs.audio import read_wave
from speculative_tts.codecs.world import SAMPLE_RATE, Wave
from speculative_tts.files import write_atomic
from speculative_tts.progress import progress
from speculative_tts.records import write_jsonl
from speculative_tts_makers.corpora.features import speak_as
from speculative_tts_makers.corpora.plan import ListedUtterance, VoicePrompt

REFERENCE_COMPRESSION = 0.0
"""libsndfile's Vorbis setting from 0 (largest) to 1 (smallest)."""


@dataclass(frozen=True)
class ListRow:
    """One test utterance; audio paths are relative to the list's folder."""

    id: str
    speaker: str
    seen: bool
    text: str
    prompt_audio: str
    prompt_text: str
    reference_audio: str


def write_list(prompts: list[VoicePrompt], rows: list[ListedUtterance], folder: Path) -> Path:
    """Speak the prompts and references that do not exist yet, then write `list.jsonl`."""
    by_id = {prompt.id: prompt for prompt in prompts}
    for prompt in progress(prompts, desc=f"{folder.name} prompts"):
        path = folder / prompt_path(prompt.id)
        if not path.exists():
            _, wave = speak_as(prompt.words, prompt.speaker, prompt.duration_stretch)
            write_audio(path, wave)
    for row in progress(rows, desc=f"{folder.name} references"):
        path = folder / reference_path(row.id)
        if not path.exists():
            _, wave = speak_as(row.words, row.speaker, row.duration_stretch)
            write_audio(path, wave)
    write_jsonl(
        folder / "list.jsonl", (asdict(list_row(row, by_id[row.prompt_id])) for row in rows)
    )
    return folder / "list.jsonl"


def read_list(folder: Path) -> list[ListRow]:
    """Read the rows of a list that `write_list` wrote."""
    lines = (folder / "list.jsonl").read_text().splitlines()
    return [ListRow(**json.loads(line)) for line in lines if line]


def list_row(row: ListedUtterance, prompt: VoicePrompt) -> ListRow:
    """Return a planned row in the list's form."""
    return ListRow(
        id=row.id,
        speaker=row.speaker.name,
        seen=row.speaker.seen,
        text=" ".join(row.words),
        prompt_audio=prompt_path(prompt.id),
        prompt_text=" ".join(prompt.words),
        reference_audio=reference_path(row.id),
    )


def prompt_path(prompt_id: str) -> str:
    """Return the path of a prompt's audio, relative to the list."""
    return f"prompts/{prompt_id}.flac"


def reference_path(row_id: str) -> str:
    """Return the path of a reference's audio, relative to the list."""
    return f"references/{row_id}.ogg"


def write_audio(path: Path, wave: Wave) -> None:
    """Write a mono 16 kHz wave as FLAC or Ogg Vorbis by the file's suffix, atomically."""
    how: dict[str, Any] = {"format": "FLAC", "subtype": "PCM_16"}
    if path.suffix != ".flac":
        how = {"format": "OGG", "subtype": "VORBIS", "compression_level": REFERENCE_COMPRESSION}
    buffer = io.BytesIO()
    soundfile.write(buffer, wave, SAMPLE_RATE, **how)
    write_atomic(path, buffer.getvalue())


def read_audio(path: Path) -> Wave:
    """Read a mono 16 kHz wave, float32 in [-1, 1]."""
    return read_wave(path, SAMPLE_RATE)
