"""Make a list for comparing voices: every voice says the same held-out strings.

The strings are the development list's. Their words depend on the seed alone, and the voices'
prompts exist already, so that nothing has to be spoken.
"""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

from speculative_tts.records import ListItem, spread, to_row, write_jsonl
from speculative_tts.schema.prepare import PrepareConfig
from speculative_tts_makers.corpora.plan import Words, plan_list


def dev_strings(config: PrepareConfig) -> list[str]:
    """Return `config.rows` texts of the development list, evenly spread over it."""
    reserved: set[Words] = set()
    plan_list("test", config.test_rows_per_speaker, config.seed, reserved)
    _, rows = plan_list("dev", config.dev_rows_per_speaker, config.seed, reserved)
    return [" ".join(row.words) for row in spread(rows, config.rows)]


def voice_rows(items: Sequence[ListItem], texts: Sequence[str]) -> list[ListItem]:
    """Combine each speaker of a list, by the prompt of its first row, with each of the texts."""
    voices: dict[str, ListItem] = {}
    for item in items:
        voices.setdefault(item.speaker, item)
    return [
        dataclasses.replace(
            voice, id=f"{name}-{number}", text=text, reference_audio=None, reference_codes=None
        )
        for name, voice in voices.items()
        for number, text in enumerate(texts)
    ]


def write_voices(items: Sequence[ListItem], config: PrepareConfig, path: Path) -> int:
    """Write the list, with prompts relative to its folder; return its number of rows."""
    rows = [
        to_row(row) | {"prompt_audio": os.path.relpath(row.prompt_audio, path.parent)}
        for row in voice_rows(items, dev_strings(config))
    ]
    write_jsonl(path, rows)
    return len(rows)
