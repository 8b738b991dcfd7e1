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
        return cls.of(
            config, state | {HEAD: head}, layout, dtype=dtype, device=device, where=folder
        )

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
