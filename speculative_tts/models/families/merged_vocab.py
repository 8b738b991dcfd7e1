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
    State,
    build_decoder,
    read_state,
    state_matrices,
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
        embedding, head = state_matrices(config, state, folder)
        if config.vocab_size < layout.vocab_size:
            raise ValueError(
                f"checkpoint {folder} has {config.vocab_size} rows of {EMBEDDING}, speech.json "
                f"tells of {layout.vocab_size}; they do not belong together"
            )
        matrices = {EMBEDDING: embedding, HEAD: head}
        return cls.of(config, state | matrices, layout, dtype=dtype, device=device, where=folder)

    @classmethod
    def of(
        cls,
        config: DecoderConfig,
        state: State,
        layout: SpeechLayout,
        *,
        dtype: torch.dtype,
        device: torch.device,
        where: Path,
    ) -> "MergedVocabLM":
        """Build the model of a state dict whose first rows are the speech ids, the head's too."""
        others = (EMBEDDING, HEAD, BIAS)
        decoder = build_decoder(
            config, state, dtype=dtype, device=device, others=others, where=where
        )
        rows = layout.speech_vocab_size
        embedding, head = (
            tensor.to(dtype=dtype, device=device)
            for tensor in (state[EMBEDDING], state[HEAD][:rows])
        )
        bias = state[BIAS][:rows].to(head) if BIAS in state else None
        return cls(decoder, layout, embedding, matrix(head.T, bias))
