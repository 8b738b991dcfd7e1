"""VALL-E's autoregressive model: layer 1 of the codes from text and the codes before.

A prefix language model: text rows see all text and no audio; audio rows see all text and the audio
up to themselves. Its weights serve training here and decoding in `models.families.valle.lm`.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from speculative_tts.models.families.valle.config import ValleConfig
from speculative_tts.models.families.valle.modules import (
    SinePosition,
    Stack,
    TokenEmbedding,
    audio_prenet,
    padding,
    text_prenet,
)


@dataclass(frozen=True)
class ARTraining:
    """Teacher-forced results of a padded batch; `rows` is the longest audio (+ 1 with a BOS)."""

    inputs: Int64[Tensor, "batch rows"]
    targets: Int64[Tensor, "batch rows"]
    padded: Bool[Tensor, "batch rows"]  # rows after the first end id
    hidden: Float[Tensor, "batch rows dim"]
    logits: Float[Tensor, "batch rows classes"]

    def loss(self, *, count_padding: bool = True) -> Tensor:
        """Summed cross entropy, a scalar.

        The official code counts padded rows too, whose target is the end id; without them the
        loss does not depend on how a batch was put together.
        """
        nats = F.cross_entropy(self.logits.float().mT, self.targets, reduction="none")
        return nats.sum() if count_padding else nats.masked_fill(self.padded, 0.0).sum()

    def top10(self) -> float:
        """Share of codes (end ids apart) among the ten most likely."""
        return top10(self.logits, self.targets, self.logits.shape[-1] - 1)


class ValleAR(nn.Module):
    """Text and layer-1 codes to logits of the next code; names are the official ones."""

    def __init__(self, config: ValleConfig) -> None:
        super().__init__()
        c = self.config = config
        self.ar_text_embedding = TokenEmbedding(c.dim, c.text_tokens)
        self.ar_audio_embedding = TokenEmbedding(c.dim, c.n_codes + 1 + c.prepend_bos)
        self.ar_text_prenet = text_prenet(c.dim, c.add_prenet)
        self.ar_audio_prenet = audio_prenet(c.dim, c.add_prenet)
        self.ar_text_position = SinePosition(c.dim, dropout=c.dropout, learned=True)
        self.ar_audio_position = SinePosition(c.dim, dropout=c.dropout, learned=True)
        self.ar_decoder = Stack(
            c.layers, c.dim, c.heads, norm_first=c.norm_first, adaptive=False, dropout=c.dropout
        )
        self.ar_predict_layer = nn.Linear(c.dim, c.n_codes + 1, bias=False)

    def forward(
        self,
        text: Int64[Tensor, "batch text"],
        text_lengths: Int64[Tensor, " batch"],
        codes: Int64[Tensor, "batch frames"],
        code_lengths: Int64[Tensor, " batch"],
    ) -> ARTraining:
        """Teacher forcing on a padded batch (right padding; its ids do not matter in `codes`).

        Without a BOS the first code is an input only: it is never predicted.
        """
        inputs, targets = self._shifted(codes, padding(code_lengths, codes.shape[1]))
        ends = code_lengths + int(self.config.prepend_bos)
        silent = padding(ends, inputs.shape[1])
        hidden = self.hidden(text, inputs, padding(text_lengths, text.shape[1]), silent)
        logits = self.ar_predict_layer(hidden)
        return ARTraining(inputs, targets, silent, hidden, logits)

    def hidden(
        self,
        text: Int64[Tensor, "batch text"],
        audio: Int64[Tensor, "batch rows"],
        text_padding: Bool[Tensor, "batch text"] | None = None,
        audio_padding: Bool[Tensor, "batch rows"] | None = None,
    ) -> Float[Tensor, "batch rows dim"]:
        """Return the states that `ar_predict_layer` reads, of every audio row, computed anew.

        `audio` holds ids with the BOS, if the model has one.
        """
        x = self.ar_text_position(self.ar_text_prenet(self.ar_text_embedding(text)))
        y = self.ar_audio_position(self.ar_audio_prenet(self.ar_audio_embedding(audio)))
        texts, rows = text.shape[1], audio.shape[1]
        visible = prefix_mask(texts, texts + rows, text.device)[None, None]
        if text_padding is not None and audio_padding is not None:
            visible = visible & ~torch.cat([text_padding, audio_padding], 1)[:, None, None]
        out: Tensor = self.ar_decoder(torch.cat([x, y], 1), visible)
        return out[:, texts:]

    def _shifted(self, codes: Tensor, silent: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and targets; padded places hold the end id."""
        ended = F.pad(codes.masked_fill(silent, self.config.eos_id), (0, 1))
        ended[:, -1] = self.config.eos_id
        if self.config.prepend_bos:
            return F.pad(ended[:, :-1], (1, 0), value=self.config.bos_id), ended
        return ended[:, :-1], ended[:, 1:]


def prefix_mask(prefix: int, size: int, device: torch.device) -> Bool[Tensor, "size size"]:
    """True where a row sees a column: the prefix is seen by all, the rest causally."""
    index = torch.arange(size, device=device)
    return (index <= index[:, None]) | (index < prefix)


def top10(logits: Float[Tensor, "... classes"], targets: Int64[Tensor, "..."], end: int) -> float:
    """Share of targets other than `end` among the ten most likely classes; NaN without any."""
    found = (logits.topk(min(10, logits.shape[-1])).indices == targets[..., None]).any(-1)
    return float(found[targets != end].float().mean())
