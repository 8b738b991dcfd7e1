"""The request to a speech LM: a text, in the voice of a recording and its words."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Int64
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Prompt:
    """The text to say, and of the voice prompt its words and codes; it may have neither.

    `speaker` is a name that the model knows; `voice_codes` are a voice's global codes.
    """

    text: str
    voice_text: str = ""
    voice: Int64[Tensor, "*layers tokens"] = field(
        default_factory=lambda: torch.zeros(0, dtype=torch.int64)
    )
    speaker: str = ""
    voice_codes: tuple[int, ...] = ()

    @property
    def codes(self) -> list[int]:
        """The voice's codes that an LM reads: of several layers the first."""
        codes: list[int] = first_layer(self.voice).tolist()
        return codes


@dataclass(frozen=True, eq=False)
class EncodedPrompt:
    """A prompt as one speech LM reads it."""

    ids: list[int]  # rows of the checkpoint's vocabulary
    inputs: Tensor  # what `prefill` reads, such as [length, hidden]
    speech_ids: tuple[int, ...]  # of those rows that have one, in order


def first_layer(codes: Int64[Tensor, "*layers tokens"]) -> Int64[Tensor, " tokens"]:
    """Return the codes that an LM reads and emits: of several layers the first."""
    return codes if codes.ndim == 1 else codes[0]
