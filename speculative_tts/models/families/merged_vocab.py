"""The tiny and CosyVoice speech LMs: a merged vocabulary whose first rows are codes and stop ids.

The head is cut to these rows: exact for a sampler that masks text rows, as CosyVoice 2's head is
made.
"""

from pathlib import Path

import torch
from torch import Tensor

from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.decoder.decoder import Decoder
from speculative_tts.models.decoder.loading import (
    EMBEDDING,
    HEAD,
    build_decoder,
    head_of,
    read_state,
)
from speculative_tts.models.decoder.matrix import Matrix, matrix
from speculative_tts.models.families.code_lm import CodeLM
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.models.phones import read_layout

BIAS = "lm_head.bias"


class MergedVocabLM(CodeLM):
    """Embeds prompts and speech ids, runs the decoder, returns logits over speech ids."""

    layout: SpeechLayout

    def __init__(self, decoder: Decoder, layout: SpeechLayout, embedding: Tensor, head: Matrix):
        """embedding: [rows, hidden], speech ids first; head: to speech_vocab_size."""
        super().__init__(decoder, embedding, head)
        self.layout = layout

    @classmethod
    def load(cls, folder: Path, *, dtype: torch.dtype, device: torch.device) -> "MergedVocabLM":
        """A checkpoint in the merged layout: config.json, weights and speech.json of one folder."""
        config, layout = DecoderConfig.from_folder(folder), read_layout(folder)
        state = read_state(folder)
        decoder = build_decoder(
            config, state, dtype=dtype, device=device, others=(EMBEDDING, HEAD, BIAS), where=folder
        )
        head = head_of(config, state, folder)
        for name, tensor, rows in (
            (EMBEDDING, state.get(EMBEDDING, head[:0]), layout.vocab_size),
            (EMBEDDING if config.tied else HEAD, head, layout.speech_vocab_size),
        ):
            if min(len(tensor), config.vocab_size) < rows:
                raise ValueError(
                    f"checkpoint {folder} has no {rows} rows of {name}; "
                    "config.json, speech.json and weights do not belong together"
                )
        embedding, head = (
            tensor.to(dtype=dtype, device=device) for tensor in (state[EMBEDDING], head)
        )
        bias = state.get(BIAS)
        spoken = slice(0, layout.speech_vocab_size)
        return cls(
            decoder,
            layout,
            embedding,
            matrix(
                head[spoken].T,
                None if bias is None else bias[spoken].to(dtype=dtype, device=device),
            ),
        )
