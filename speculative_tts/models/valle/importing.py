"""An official VALL-E or USLM checkpoint as a folder of this toolkit."""

from pathlib import Path

from speculative_tts.models.valle.checkpoint import load_valle, save_valle
from speculative_tts.models.valle.layout import PhonemeLayout
from speculative_tts.models.valle.text import BEGIN, END, SPECIAL, Symbols

TOKEN_RATE, SAMPLE_RATE = 50.0, 16_000  # of SpeechTokenizer, whose codes both papers' models speak
SAMPLING = {  # the official front end's defaults, and where it ends: in codes a phoneme
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_tokens_per_word": 0.0,
    "max_tokens_per_word": 16.0,
}


def import_valle(
    checkpoint: Path,
    symbols: Path,
    folder: Path,
    *,
    heads: int | None = None,
    prefix_mode: int | None = None,
    language: str = "en-us",
) -> PhonemeLayout:
    """Write config.json, model.safetensors and speech.json; returns what the last says.

    `checkpoint` is an icefall .pt file (or a plain state dict), `symbols` the k2symbols file that
    training used. ValueError when one is not, or they do not belong together.
    """
    valle = load_valle(checkpoint, heads=heads, prefix_mode=prefix_mode)
    known = Symbols.read(symbols).ids
    if len(known) > valle.config.text_tokens:
        raise ValueError(
            f"{symbols} has {len(known)} symbols, {checkpoint} embeds {valle.config.text_tokens}; "
            "give the file that this checkpoint was trained with"
        )
    n_codes = valle.config.n_codes
    layout = PhonemeLayout(
        n_codes=n_codes,
        stop_ids=(valle.config.eos_id,),
        speech_vocab_size=n_codes + 1,
        text_offset=len(SPECIAL),
        words=tuple(list(known)[len(SPECIAL) :]),
        sos_id=BEGIN,
        task_id=END,
        token_rate=TOKEN_RATE,
        sample_rate=SAMPLE_RATE,
        sampling=dict(SAMPLING),
        phonemes=language,
    )
    save_valle(valle, folder)
    layout.save(folder)  # last: a folder with it is whole
    return layout
