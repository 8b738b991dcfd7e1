"""A small random VALL-E that reads words, on disk as this toolkit exports one."""

from pathlib import Path

from fake_models import SAMPLING, WORDS
from valle_golden import small_valle

from speculative_tts.models.families.valle.checkpoint import Valle, save_valle
from speculative_tts.models.families.valle.config import ValleConfig
from speculative_tts.models.layout import SpeechLayout

FIRST_WORD = 3  # behind padding, begin and end


def write_valle(folder: Path, *, n_codes: int, quantizers: int) -> Valle:
    """AR and NAR of two layers for the words and lists of `fake_models`."""
    text_tokens = FIRST_WORD + len(WORDS)
    valle = small_valle(
        ValleConfig(
            dim=16,
            heads=2,
            layers=2,
            quantizers=quantizers,
            n_codes=n_codes,
            text_tokens=text_tokens,
        )
    )
    save_valle(valle, folder)
    layout = SpeechLayout(
        n_codes=n_codes,
        stop_ids=(n_codes,),
        speech_vocab_size=n_codes + 1,
        text_offset=FIRST_WORD,
        words=tuple(WORDS),
        sos_id=1,
        task_id=2,
        token_rate=50.0,
        sample_rate=16_000,
        sampling=dict(SAMPLING),
    )
    layout.save(folder)
    return valle
