"""VALL-E's non-autoregressive model: layers 2, 3, .. of the codes, each from those before it.

One pass a layer ("stage"), all rows seeing each other. The acoustic prompt is part of the audio;
`prefix_mode` says how its layers are put in (see `models.families.valle.config`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float, Int64
from torch import Tensor, nn

from speculative_tts.models.families.valle.ar import top10
from speculative_tts.models.families.valle.config import ValleConfig
from speculative_tts.models.families.valle.modules import (
    SinePosition,
    Stack,
    TokenEmbedding,
    audio_prenet,
    padding,
    text_prenet,
)

LONGEST_PREFIX = 225
"""Frames of an acoustic prompt at most: 3 s of EnCodec. USLM's code has 150, 3 s of its codec."""


@dataclass(frozen=True)
class NARTraining:
    """Teacher-forced results of one stage; `rows` is the longest audio without its prefix."""

    targets: Int64[Tensor, "batch rows"]  # the end id where nothing is to be predicted
    logits: Float[Tensor, "batch rows codes"]
    frames: Int64[Tensor, ""]  # of all utterances, prefixes included

    def loss(self) -> Tensor:
        """Summed cross entropy of the codes, a scalar.

        Scaled by all frames over predicted ones, so that a prefix does not make a batch count less.
        """
        end = self.logits.shape[-1]
        nats = F.cross_entropy(
            self.logits.float().mT, self.targets, ignore_index=end, reduction="sum"
        )
        return nats * (self.frames / (self.targets != end).sum())

    def top10(self) -> float:
        """Share of codes among the ten most likely."""
        return top10(self.logits, self.targets, self.logits.shape[-1])


class ValleNAR(nn.Module):
    """Text, a prompt's codes and lower layers to logits of a layer; names are the official ones.

    Of a model with one layer of codes, only the text embedding exists (and is not used).
    """

    def __init__(self, config: ValleConfig) -> None:
        super().__init__()
        c = self.config = config
        dim, stages = c.nar_dim, c.quantizers - 1
        self.nar_text_embedding = TokenEmbedding(dim, c.text_tokens)
        if stages == 0:
            return
        self.nar_audio_embeddings = nn.ModuleList(
            TokenEmbedding(dim, c.n_codes + (layer == 0)) for layer in range(c.quantizers)
        )
        self.nar_text_prenet = text_prenet(dim, c.add_prenet)
        self.nar_audio_prenet = audio_prenet(dim, c.add_prenet)
        self.nar_text_position = SinePosition(dim, dropout=0.0, learned=False)
        self.nar_audio_position = SinePosition(dim, dropout=c.dropout, learned=False)
        self.nar_decoder = Stack(
            c.nar_layers,
            dim,
            c.nar_heads,
            norm_first=c.norm_first,
            adaptive=True,
            dropout=c.dropout,
        )
        self.nar_predict_layers = nn.ModuleList(
            nn.Linear(dim, c.n_codes, bias=False) for _ in range(stages)
        )
        self.nar_stage_embeddings = nn.ModuleList(TokenEmbedding(dim, 1) for _ in range(stages))
        if c.share_embedding:
            for stage in range(stages - 1):
                shared = self.nar_audio_embeddings[stage + 2].weight
                self.nar_predict_layers[stage].weight = shared

    def forward(
        self,
        text: Int64[Tensor, "batch text"],
        text_lengths: Int64[Tensor, " batch"],
        codes: Int64[Tensor, "batch frames layers"],
        code_lengths: Int64[Tensor, " batch"],
        stage: int,
        prefix: int = 0,
    ) -> NARTraining:
        """Teacher forcing of layer `stage` (1 .. quantizers - 1) on a padded batch.

        The first `prefix` frames of every row are its acoustic prompt, all layers of which are
        seen and none predicted (`draw_prefix` draws its length as the official code does in prefix
        mode 1; mode 0 has none).
        """
        c = self.config
        silent = padding(code_lengths, codes.shape[1])
        codes = codes.masked_fill(silent[..., None], 0)
        first = codes[..., :1].masked_fill(silent[..., None], c.eos_id)
        audio = torch.cat([first, codes[..., 1:]], -1)
        prompt, rest = audio[:, :prefix], audio[:, prefix:]
        y = torch.cat([self._embed(prompt, c.quantizers), self._embed(rest, stage)], 1)
        targets = codes[..., stage].masked_fill(silent, c.eos_id)[:, prefix:]
        unseen = torch.cat([padding(text_lengths, text.shape[1]), silent], 1)
        hidden = self._hidden(self._text(text), y, stage, ~unseen[:, None, None])
        logits = self.nar_predict_layers[stage - 1](hidden[:, prefix:])
        return NARTraining(targets, logits, code_lengths.sum())

    def infer(
        self,
        text: Int64[Tensor, "batch text"],
        prompt: Int64[Tensor, "batch prompt layers"],
        first: Int64[Tensor, "batch frames"],
        *,
        enrolled: int = 0,
        prefix_mode: int | None = None,
    ) -> Int64[Tensor, "batch frames layers"]:
        """All layers of the utterance whose first layer is given; the most likely codes.

        text: begin id, the prompt's phonemes and the utterance's, end id. enrolled: length of the
        prompt's text with both ids, dropped in the modes 2 and 4. Rows are of one length.
        """
        stages = self.stage_logits(text, prompt, first, enrolled=enrolled, prefix_mode=prefix_mode)
        return torch.stack([first, *(logits.argmax(-1) for logits in stages)], -1)

    @torch.inference_mode()
    def stage_logits(
        self,
        text: Int64[Tensor, "batch text"],
        prompt: Int64[Tensor, "batch prompt layers"],
        first: Int64[Tensor, "batch frames"],
        *,
        enrolled: int = 0,
        prefix_mode: int | None = None,
    ) -> Iterator[Float[Tensor, "batch frames codes"]]:
        """Logits of layer 2, 3, ..; each sees the most likely codes of those before."""
        c = self.config
        if c.quantizers == 1:
            return
        mode = c.prefix_mode if prefix_mode is None else prefix_mode
        if mode in (2, 4):
            text = torch.cat([text[:, :1], text[:, enrolled - 1 :]], 1)
        x, codes = self._text(text), first[..., None]
        for stage in range(1, c.quantizers):
            seen = stage if mode == 0 else c.quantizers
            y = torch.cat([self._embed(prompt, seen), self._embed(codes, stage)], 1)
            hidden = self._hidden(x, y, stage, None)[:, prompt.shape[1] :]
            logits = self.nar_predict_layers[stage - 1](hidden)
            yield logits
            codes = torch.cat([codes, logits.argmax(-1, keepdim=True)], -1)

    def _text(self, text: Tensor) -> Tensor:
        placed: Tensor = self.nar_text_position(self.nar_text_prenet(self.nar_text_embedding(text)))
        return placed

    def _embed(self, codes: Int64[Tensor, "batch frames _"], layers: int) -> Tensor:
        """Summed embeddings of the first `layers` layers: [batch, frames, dim]."""
        total: Tensor = self.nar_audio_embeddings[0](codes[..., 0])
        for layer in range(1, layers):
            total = total + self.nar_audio_embeddings[layer](codes[..., layer])
        return total

    def _hidden(self, x: Tensor, y: Tensor, stage: int, visible: Tensor | None) -> Tensor:
        """Hidden states of the audio rows."""
        placed = self.nar_audio_position(self.nar_audio_prenet(y))
        embedding = self.nar_stage_embeddings[stage - 1].weight
        out: Tensor = self.nar_decoder(torch.cat([x, placed], 1), visible, embedding)
        return out[:, x.shape[1] :]


def draw_prefix(
    code_lengths: Int64[Tensor, " batch"],
    generator: torch.Generator | None = None,
    longest: int = LONGEST_PREFIX,
) -> int:
    """Length of the acoustic prompt in prefix mode 1: a quarter to half of the shortest row."""
    low = int(0.25 * int(code_lengths.min()))
    if low == 0:
        return 0
    drawn = int(torch.randint(low, 2 * low, (), generator=generator))
    return min(drawn, longest)
