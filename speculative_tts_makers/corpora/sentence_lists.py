"""Write lists of held-out sentences, spoken by each voice: a dev list, a test list, voice prompts.

Rows are WordNet's or other texts' held-out sentences of `LENGTHS` words; which ones depends on the
texts and the seed alone. A prompt is a held-out sentence too, in no other row.
"""

from collections.abc import Mapping
from dataclasses import asdict
from itertools import cycle
from pathlib import Path

import numpy as np

from speculative_tts.codecs.world import SAMPLE_RATE, Wave
from speculative_tts.progress import progress
from speculative_tts.records import write_jsonl
from speculative_tts_makers.corpora.flite import speak_text
from speculative_tts_makers.corpora.sentences import mark_pauses
from speculative_tts_makers.corpora.testset import ListRow, prompt_path, reference_path, write_audio
from speculative_tts_makers.corpora.texts import held_out

LENGTHS = range(6, 15)  # words of a row
PROMPT_LENGTHS = range(6, 9)  # words of a prompt
PROMPTS = 2  # of each voice in a list
ROWS = {"test": 80, "dev": 16}  # of each voice


def write_sentence_lists(texts: list[str], voices: list[str], seed: int, out: Path) -> list[Path]:
    """Speak prompts and references into `out`/test and `out`/dev; return the two lists.

    Raises ValueError if there are too few held-out sentences.
    """
    lists, _ = plan_lists(texts, voices, seed)
    return [_speak_list(rows, out / name) for name, rows in lists.items()]


def plan_lists(
    texts: list[str], voices: list[str], seed: int
) -> tuple[dict[str, list[ListRow]], list[str]]:
    """Return the rows of each list, and the held-out sentences that are in none, in drawn order.

    Raises ValueError if there are too few held-out sentences.
    """
    left = [text for text in texts if held_out(text) and len(text.split()) in LENGTHS]
    order = np.random.default_rng(seed).permutation(len(left))
    drawn = [left[number] for number in order]
    need = sum(rows + PROMPTS for rows in ROWS.values()) * len(voices)
    if len(drawn) < need:
        raise ValueError(
            f"texts has {len(drawn)} held-out sentences of {LENGTHS[0]} to {LENGTHS[-1]} words, "
            f"the lists need {need}; give more texts or fewer voices"
        )
    return {name: _plan_list(drawn, voices, name) for name in ROWS}, drawn


def _plan_list(drawn: list[str], voices: list[str], name: str) -> list[ListRow]:
    """Take the sentences of one list from the front of `drawn`."""
    prompts = {voice: [_take(drawn, PROMPT_LENGTHS) for _ in range(PROMPTS)] for voice in voices}
    turns = {voice: cycle(range(PROMPTS)) for voice in voices}
    rows = []
    for number in range(ROWS[name]):
        for voice in voices:
            turn = next(turns[voice])
            row_id = f"{name}-{voice}-{number}"
            rows.append(
                ListRow(
                    id=row_id,
                    speaker=voice,
                    seen=True,
                    text=_take(drawn, LENGTHS),
                    prompt_audio=prompt_path(f"{voice}-{turn}"),
                    prompt_text=prompts[voice][turn],
                    reference_audio=reference_path(row_id),
                )
            )
    return rows


def _speak_list(rows: list[ListRow], out: Path) -> Path:
    """Speak prompts and references of a list and write its rows."""
    audio = {row.prompt_audio: (row.prompt_text, row.speaker) for row in rows}
    audio |= {row.reference_audio: (row.text, row.speaker) for row in rows}
    speak_audio(audio, out)
    write_jsonl(out / "list.jsonl", map(asdict, rows))
    return out / "list.jsonl"


def speak_audio(audio: Mapping[str, tuple[str, str]], out: Path) -> None:
    """Write the files below `out` that are not there yet, each a text spoken by a voice."""
    for place, (text, voice) in progress(audio.items(), desc=f"{out.name} list"):
        if not (out / place).exists():
            write_audio(out / place, _spoken(text, voice))


def _spoken(text: str, voice: str) -> Wave:
    """Speak a text with as little silence around it as sentences of training have."""
    spoken = speak_text(text, voice)
    _, _, start, stop = mark_pauses(spoken, text)
    return spoken.wave[round(start * SAMPLE_RATE) : round(stop * SAMPLE_RATE)]


def _take(drawn: list[str], lengths: range) -> str:
    """Take the first sentence of so many words away from `drawn`."""
    place = next(n for n, text in enumerate(drawn) if len(text.split()) in lengths)
    return drawn.pop(place)
