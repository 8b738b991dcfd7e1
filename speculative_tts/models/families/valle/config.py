"""Sizes of a VALL-E or USLM checkpoint; all but the number of heads show in tensor shapes."""

import re
from dataclasses import dataclass

from torch import Tensor

from speculative_tts.schema.fields import Count, Positive, Share
from speculative_tts.texts import some

PREFIX_MODES = (0, 1, 2, 4)
"""How the NAR sees its acoustic prompt: stage by stage; all layers; and without its phonemes."""


@dataclass(frozen=True)
class ValleConfig:
    """Shapes and options; the defaults are the LibriTTS recipe of lifeiteng/vall-e.

    Code ids are 0 .. n_codes - 1, the end of an utterance is n_codes, and with `prepend_bos` its
    beginning n_codes + 1.
    """

    dim: Count = 1024
    heads: Count = 16
    layers: Count = 12
    quantizers: Count = 8  # layers of residual codes; the AR predicts the first
    n_codes: Count = 1024  # of each layer
    text_tokens: Count = 512  # rows of the text embeddings
    norm_first: bool = True
    add_prenet: bool = False
    prefix_mode: int = 1
    share_embedding: bool = True  # NAR heads j are the NAR embeddings j + 2
    prepend_bos: bool = False
    nar_scale: Positive = 1.0  # the NAR's width, heads and layers over the AR's
    dropout: Share = 0.1  # in training

    def __post_init__(self) -> None:
        """Raises ValueError for shapes that no model has."""
        if self.prefix_mode not in PREFIX_MODES:
            raise ValueError(f"prefix_mode {self.prefix_mode} is unknown; known: {PREFIX_MODES}")
        for dim, heads in ((self.dim, self.heads), (self.nar_dim, self.nar_heads)):
            if heads < 1 or dim % heads:
                raise ValueError(f"{heads} heads do not divide {dim} dimensions; give nhead anew")
        if self.quantizers < 1:
            raise ValueError(f"quantizers {self.quantizers} is below 1; the AR predicts layer 1")

    @property
    def eos_id(self) -> int:
        """The id that ends an utterance (and pads audio)."""
        return self.n_codes

    @property
    def bos_id(self) -> int:
        """The id that begins audio with `prepend_bos`."""
        return self.n_codes + 1

    @property
    def nar_dim(self) -> int:
        """Width of the NAR."""
        return int(self.dim * self.nar_scale)

    @property
    def nar_heads(self) -> int:
        """Attention heads of the NAR."""
        return int(self.heads * self.nar_scale)

    @property
    def nar_layers(self) -> int:
        """Layers of the NAR."""
        return int(self.layers * self.nar_scale)

    @classmethod
    def from_state(
        cls, state: dict[str, Tensor], *, heads: int, prefix_mode: int = 1
    ) -> "ValleConfig":
        """Options of an official state dict; ValueError names the tensors that it lacks."""
        text, audio, head, nar_text = _tensors(
            state,
            "ar_text_embedding.word_embeddings.weight",
            "ar_audio_embedding.word_embeddings.weight",
            "ar_predict_layer.weight",
            "nar_text_embedding.word_embeddings.weight",
        )
        n_codes, dim = len(head) - 1, int(text.shape[1])
        quantizers = 1 + _count(state, r"nar_predict_layers\.(\d+)\.")
        return cls(
            dim=dim,
            heads=heads,
            layers=_count(state, r"ar_decoder\.layers\.(\d+)\."),
            quantizers=quantizers,
            n_codes=n_codes,
            text_tokens=len(text),
            norm_first="ar_decoder.norm.weight" in state,
            add_prenet=any(name.startswith("ar_text_prenet.") for name in state),
            prefix_mode=prefix_mode,
            share_embedding=_shared(state, quantizers),
            prepend_bos=len(audio) == n_codes + 2,
            nar_scale=nar_text.shape[1] / dim,
        )


def _tensors(state: dict[str, Tensor], *names: str) -> list[Tensor]:
    """Return these tensors. ValueError lists all that are missing."""
    missing = [name for name in names if name not in state]
    if missing:
        raise ValueError(
            f"the checkpoint has no tensor {some(missing)}; it is not a VALL-E or USLM"
        )
    return [state[name] for name in names]


def _count(state: dict[str, Tensor], pattern: str) -> int:
    """One more than the largest number that the pattern finds in the names; 0 without any."""
    found = [int(match[1]) for name in state if (match := re.match(pattern, name))]
    return max(found, default=-1) + 1


def _shared(state: dict[str, Tensor], quantizers: int) -> bool:
    """True if each NAR head but the last is the embedding of the codes that it predicts."""
    stages = range(quantizers - 2)
    heads = _tensors(state, *(f"nar_predict_layers.{stage}.weight" for stage in stages))
    embeddings = _tensors(
        state, *(f"nar_audio_embeddings.{stage + 2}.word_embeddings.weight" for stage in stages)
    )
    return all(a.equal(b) for a, b in zip(heads, embeddings, strict=True))
