"""Codecs by name."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from speculative_tts.assets import require
from speculative_tts.codecs.cosyvoice import CosyVoiceCodec
from speculative_tts.codecs.tiny import TinyCodec
from speculative_tts.codecs.tiny_residual import ResidualTinyCodec

SILENCE = 0.1  # seconds


class Codec(Protocol):
    """Waves to speech codes and back."""

    @property
    def sample_rate(self) -> int:
        """Samples a second of its waves."""
        ...

    @property
    def token_rate(self) -> float:
        """Codes a second."""
        ...

    @property
    def n_codes(self) -> int:
        """Size of the codebook (of each layer)."""
        ...

    @property
    def n_layers(self) -> int:
        """Layers of codes; 1 of a codec whose codes are [tokens]."""
        ...

    def encode(self, wave: np.ndarray) -> np.ndarray:
        """Mono wave to int64 codes [tokens], or [layers, tokens] of a codec with several layers."""
        ...

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """int64 codes of that shape to a mono wave."""
        ...


def _speechtokenizer(path: Path) -> Codec:
    from speculative_tts.codecs.speechtokenizer import SpeechTokenizerCodec  # torch, if needed

    return SpeechTokenizerCodec.load(path)


def _xcodec2(path: Path) -> Codec:
    from speculative_tts.codecs.xcodec2 import Xcodec2  # torch and transformers, if needed

    return Xcodec2.load(path)


def _neucodec(path: Path) -> Codec:
    from speculative_tts.codecs.neucodec import NeuCodec

    return NeuCodec.load(path)


@runtime_checkable
class VoiceCodec(Protocol):
    """A codec whose decoder hears the prompt too: for its voice, or for what went before."""

    def encode_prompt(self, wave: np.ndarray) -> np.ndarray:
        """Codes of a prompt, int64 [tokens]; its voice is kept for `decode_as`."""
        ...

    def decode_as(self, codes: np.ndarray, prompt_codes: np.ndarray) -> np.ndarray:
        """Codes to a mono wave, with the voice of a prompt of `encode_prompt`."""
        ...


@runtime_checkable
class FlowCodec(Protocol):
    """A codec whose audio comes from a flow and a vocoder."""

    @property
    def flow_seconds(self) -> float | None:
        """Spent in the flow so far; None if that cannot be told apart."""
        ...


@runtime_checkable
class BatchCodec(Protocol):
    """A codec that encodes several waves at once."""

    def encode_many(self, waves: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Codes of each wave, as `encode` gives them."""
        ...


CODECS: dict[str, Callable[[Path], Codec]] = {
    "neucodec": _neucodec,
    "speechtokenizer": _speechtokenizer,
    "cosyvoice": CosyVoiceCodec.load,
    "tiny": TinyCodec.load,
    "tiny_residual": ResidualTinyCodec.load,
    "xcodec2": _xcodec2,
}


def encode_voice(codec: Codec, wave: np.ndarray) -> np.ndarray:
    """Codes of a recording whose voice will speak: a prompt, or what is resynthesised."""
    return codec.encode_prompt(wave) if isinstance(codec, VoiceCodec) else codec.encode(wave)


def decode_voice(codec: Codec, codes: np.ndarray, prompt_codes: np.ndarray) -> np.ndarray:
    """The wave of codes that go on after a prompt's; silence where an utterance ended at once."""
    if codes.shape[-1] == 0:
        return silence(codec)
    if isinstance(codec, VoiceCodec):
        return codec.decode_as(codes, prompt_codes)
    return codec.decode(codes)


def silence(codec: Codec) -> np.ndarray:
    """What stands for no codes: a file that every judge and player opens."""
    return np.zeros(round(SILENCE * codec.sample_rate), dtype=np.float32)


def load_codec(name: str, path: Path) -> Codec:
    """The codec `name` from its files at `path`; ValueError for an unknown name or place."""
    if name not in CODECS:
        raise ValueError(
            f"codec {name!r} is unknown; known codecs, one of which codec.name must be: "
            f"{', '.join(sorted(CODECS))}"
        )
    return CODECS[name](require(path))
