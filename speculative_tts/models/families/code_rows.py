"""Causal LMs whose codes are vocabulary rows, such as LLaSA (arXiv 2502.04128): plain Llama, Qwen2.

The head may be whole: its text rows can then be emitted, as the authors' sampler does (they are fed
back and dropped from the audio). Or it is cut to codes and the end of speech, another distribution,
exactly that of a sampler which masks text rows, and a fifth less to read a step on the 1B model.
"""

from pathlib import Path

import torch
from torch import Tensor

from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.decoder.decoder import Decoder
from speculative_tts.models.decoder.loading import (
    build_decoder,
    read_state,
    state_matrices,
    stored_rows,
)
from speculative_tts.models.decoder.matrix import Matrix, matrix
from speculative_tts.models.families.code_lm import CodeLM, embedded
from speculative_tts.models.families.row_layout import TOKENIZER, RowLayout
from speculative_tts.schema.common import CheckpointConfig

FILES = f"config.json, model.safetensors and {TOKENIZER[0]}"


class RowLM(CodeLM):
    """Speech ids are mapped to rows of the vocabulary by `layout.order`."""

    layout: RowLayout

    def __init__(
        self, decoder: Decoder, layout: RowLayout, embedding: Tensor, head: Matrix, order: Tensor
    ) -> None:
        """embedding: [rows, hidden]; head: to width; order: int64 [width], id to row."""
        super().__init__(decoder, embedding, head)
        self.layout = layout
        self._order = order

    @classmethod
    def load(
        cls, config: CheckpointConfig, *, dtype: torch.dtype, device: torch.device, text_rows: bool
    ) -> "RowLM":
        """A Hugging Face folder; `text_rows` keeps the whole head."""
        folder = Path(config.path)
        layout = RowLayout.read(folder, config.rows)
        decoder_config = DecoderConfig.from_folder(folder)
        state = read_state(folder)
        embedding, head = state_matrices(decoder_config, state, folder)
        order = layout.order(text_rows=text_rows)
        head = head[order].to(dtype=dtype, device=device).T
        return cls(
            build_decoder(decoder_config, state, dtype=dtype, device=device, where=folder),
            layout,
            embedding.to(dtype=dtype, device=device),
            matrix(head),
            order.to(device),
        )

    def subset(self, layers: list[int]) -> "RowLM":
        """A draft that has some of the layers and shares all weights with this model."""
        decoder = self.decoder.some(layers)
        return RowLM(decoder, self.layout, self.embedding, self.head, self._order)

    def embed(self, ids: Tensor) -> Tensor:
        """Inputs of speech ids: [..., hidden]."""
        return embedded(self._order[ids], self.embedding)

    def _rows_of_ids(self) -> Tensor:
        return self._order

    def speech_ids(self, rows: list[int]) -> list[int]:
        """Speech ids of those rows of a prompt that the head has."""
        ids = torch.full((self.layout.rows,), -1)
        ids[self._order.cpu()] = torch.arange(len(self._order))
        return [int(i) for i in ids[rows] if i >= 0]


def found(folder: Path) -> bool:
    """True if the folder is a causal LM with its tokenizer."""
    return (folder / "config.json").is_file() and any((folder / n).is_file() for n in TOKENIZER)


def code_embedding(config: CheckpointConfig) -> Tensor:
    """Stored input embeddings of all codes: [n_codes, hidden]."""
    folder = Path(config.path)
    return stored_rows(folder, RowLayout.read(folder, config.rows).codes)
