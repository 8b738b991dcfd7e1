"""Read published test lists in their own formats, line by line.

unicats: `utterance prompt` (LibriTTS ids; UniCATS, Du et al., AAAI 2024; SSD's list is test set B).
f5: prompt id, its seconds and text, utterance id, its seconds and text, tab between (F5-TTS).
seedtts: `id|prompt text|prompt wav|text` and perhaps `|wav`, paths relative to the list.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from speculative_tts.ids import check_id
from speculative_tts.schema.prepare import ListFormat
from speculative_tts.texts import read_lines

SOURCES = {
    ListFormat.unicats: "https://cpdu.github.io/unicats/resources/testsetB_utt2prompt",
    ListFormat.f5: "https://github.com/SWivid/F5-TTS, data/"
    "librispeech_pc_test_clean_cross_sentence.lst",
    ListFormat.seedtts: "https://github.com/BytedanceSpeech/seed-tts-eval, meta.lst",
}


@dataclass(frozen=True)
class Listed:
    """One line: ids, and the list's own texts and audio if it has them (else the corpus's)."""

    id: str
    prompt_id: str
    text: str | None = None
    prompt_text: str | None = None
    audio: str | None = None
    prompt_audio: str | None = None

    @property
    def leaks(self) -> bool:
        """True if the utterance is its own prompt."""
        return self.id == self.prompt_id


def read_published(path: Path, form: ListFormat) -> list[Listed]:
    """Read a list's rows; raise ValueError naming a line that is not of this format."""
    if not path.is_file():
        raise ValueError(f"list_file={path} not found; get it from {SOURCES[form]}")
    rows = []
    for number, line in enumerate(read_lines(path, "get it again"), start=1):
        if line.strip():
            row = PARSERS[form](line)
            if row is None:
                raise ValueError(f"{path}:{number}: not a line of format={form.name}: {line[:60]}")
            check_id(path, row.id)
            rows.append(row)
    if not rows:
        raise ValueError(f"list_file={path} has no rows; get it from {SOURCES[form]}")
    return rows


def _unicats(line: str) -> Listed | None:
    fields = line.split()
    return Listed(*fields) if len(fields) == 2 else None


def _f5(line: str) -> Listed | None:
    fields = [field.strip() for field in line.split("\t")]
    if len(fields) != 6:
        return None
    prompt, _, prompt_text, key, _, text = fields
    return Listed(key, prompt, text, prompt_text)


def _seedtts(line: str) -> Listed | None:
    fields = line.split("|")
    if len(fields) not in {4, 5}:
        return None
    key, prompt_text, prompt, text, *audio = (field.strip() for field in fields)
    name = Path(prompt).stem
    return Listed(key, name, text, prompt_text, audio[0] if audio else None, prompt)


PARSERS: dict[ListFormat, Callable[[str], Listed | None]] = {
    ListFormat.unicats: _unicats,
    ListFormat.f5: _f5,
    ListFormat.seedtts: _seedtts,
}
