"""An official VALL-E or USLM checkpoint as a folder of this toolkit."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speculative_tts.models.families.valle.checkpoint import Valle, load_valle, save_valle
from speculative_tts.models.families.valle.layout import PhonemeLayout
from speculative_tts.models.families.valle.text import BEGIN, END, SPECIAL, Symbols
from speculative_tts.schema.prepare import Origin

TOKEN_RATE, SAMPLE_RATE = 50.0, 16_000  # of SpeechTokenizer, whose codes both papers' models speak
SAMPLING = {  # the official front end's defaults, and where it ends: its most in codes a phoneme
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_tokens_per_word": 0.0,
    "max_tokens_per_word": 16.0,
    "end_when_likeliest": True,
}
HEADS = 16  # of every official command line
PREFIX_MODES = {Origin.valle: 1, Origin.uslm: 0}  # VALL-E's recipe; USLM's command line


@dataclass(frozen=True)
class Options:
    """Say what a checkpoint's tensors do not show and was assumed: a line each."""

    heads: int
    prefix_mode: int
    assumed: tuple[str, ...] = ()


def options_of(
    written: dict[str, Any],
    origin: Origin | None,
    heads: int | None = None,
    prefix_mode: int | None = None,
) -> Options:
    """Return the given ones, else those that training wrote into the file, else the official ones.

    USLM's own code does not read the prefix mode of a file, but takes its command line's. Which of
    the two models a file holds its tensors do not show; without a word of it, it is VALL-E.
    """
    name = str(written.get("model_name", "")).lower()
    assumed = []
    if origin is None:
        origin = Origin.uslm if name == "uslm" else Origin.valle
        if not name:
            assumed.append(f"a model of {origin.label} (model=uslm for the other)")
    known = {} if origin is Origin.uslm else {"prefix_mode": written.get("prefix_mode")}
    if prefix_mode is None:
        prefix_mode = known.get("prefix_mode")
    if prefix_mode is None:
        prefix_mode = PREFIX_MODES[origin]
        assumed.append(f"prefix_mode {prefix_mode}, {origin.label}'s")
    heads = written.get("nhead") if heads is None else heads
    if heads is None:
        heads = HEADS
        assumed.append(f"heads {heads}, the official number")
    return Options(heads, prefix_mode, tuple(assumed))


def import_valle(
    checkpoint: Path, symbols: Path, folder: Path, options: Options, language: str = "en-us"
) -> PhonemeLayout:
    """Write config.json, model.safetensors and speech.json; returns what the last says.

    `checkpoint` is an icefall .pt file (or a plain state dict), `symbols` the k2symbols file that
    training used. ValueError when one is not, or they do not belong together.
    """
    valle = load_valle(checkpoint, heads=options.heads, prefix_mode=options.prefix_mode)
    known = Symbols.read(symbols)
    if len(known.ids) > valle.config.text_tokens:
        raise ValueError(
            f"{symbols} has {len(known.ids)} symbols, {checkpoint} embeds "
            f"{valle.config.text_tokens}; give the file that this checkpoint was trained with"
        )
    return write_folder(valle, known, folder, language)


def write_folder(valle: Valle, symbols: Symbols, folder: Path, language: str) -> PhonemeLayout:
    """Write both models with the layout of their phonemes, which is returned."""
    n_codes = valle.config.n_codes
    layout = PhonemeLayout(
        n_codes=n_codes,
        stop_ids=(valle.config.eos_id,),
        speech_vocab_size=n_codes + 1,
        text_offset=len(SPECIAL),
        words=tuple(list(symbols.ids)[len(SPECIAL) :]),
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
