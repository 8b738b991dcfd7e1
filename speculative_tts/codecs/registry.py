"""Load codecs by name, and define their interfaces."""

from collections.abc import Callable, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Protocol, runtime_checkable

import numpy as np

from speculative_tts.assets import require
from speculative_tts.installed import find

SILENCE = 0.1  # seconds


class Codec(Protocol):
    """A codec between waves and speech codes."""

    @property
    def sample_rate(self) -> int:
        """Samples per second of its waves."""

    @property
    def token_rate(self) -> float:
        """Codes per second."""

    @property
    def n_codes(self) -> int:
        """Size of the codebook (of each layer)."""

    @property
    def n_layers(self) -> int:
        """Number of code layers; 1 for a codec whose codes are [tokens]."""

    def encode(self, wave: np.ndarray) -> np.ndarray:
        """Encode a mono wave to int64 codes [tokens], or [layers, tokens] with several layers."""

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Decode int64 codes of that shape to a mono wave."""


@runtime_checkable
class VoiceCodec(Protocol):
    """A codec whose decoder also uses the prompt: its voice, or its codes as context."""

    def encode_prompt(self, wave: np.ndarray) -> np.ndarray:
        """Encode a prompt, int64 [tokens], and store its voice for `decode_as`."""

    def decode_as(self, codes: np.ndarray, prompt_codes: np.ndarray) -> np.ndarray:
        """Decode to a mono wave, with the voice of a prompt of `encode_prompt`."""


@runtime_checkable
class FlowCodec(Protocol):
    """A codec whose audio comes from a flow and a vocoder."""

    @property
    def flow_seconds(self) -> float | None:
        """Seconds spent in the flow so far; None if they cannot be measured."""


@runtime_checkable
class BatchCodec(Protocol):
    """A codec that encodes several waves at once."""

    def encode_many(self, waves: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Encode several waves, with the same results as `encode`."""


# The class of each codec, imported when it is asked for: some need torch and transformers.
CODECS = {
    "codes": "codes_only:CodesOnly",
    "cosyvoice": "cosyvoice:CosyVoiceCodec",
    "mimi": "mimi:MimiCodec",
    "neucodec": "neucodec:NeuCodec",
    "snac": "snac:SnacCodec",
    "speechtokenizer": "speechtokenizer:SpeechTokenizerCodec",
    "tiny": "tiny:TinyCodec",
    "tiny_residual": "tiny:ResidualTinyCodec",
    "xcodec2": "xcodec2:Xcodec2",
}


def encode_voice(codec: Codec, wave: np.ndarray) -> np.ndarray:
    """Encode a recording whose voice will speak: a prompt, or speech to resynthesise."""
    return codec.encode_prompt(wave) if isinstance(codec, VoiceCodec) else codec.encode(wave)


def decode_voice(codec: Codec, codes: np.ndarray, prompt_codes: np.ndarray) -> np.ndarray:
    """Decode codes that follow a prompt's; silence where an utterance ended at once."""
    if codes.shape[-1] == 0:
        return silence(codec)
    if isinstance(codec, VoiceCodec):
        return codec.decode_as(codes, prompt_codes)
    return codec.decode(codes)


def silence(codec: Codec) -> np.ndarray:
    """Return the audio of an utterance without codes, which every judge and player can open."""
    return np.zeros(round(SILENCE * codec.sample_rate), dtype=np.float32)


def load_codec(name: str, path: Path) -> Codec:
    """Load the codec `name`, ours or an installed package's; ValueError for an unknown one."""
    make: Callable[[Path], Codec]
    if name in CODECS:
        make = resolve_name(f"speculative_tts.codecs.{CODECS[name]}").load
    else:
        make = find("codec", name, tuple(CODECS))
    return make(require(path))
