"""Decoders of any size with random weights: what a step of a published model costs without it."""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from speculative_tts.models.config import DecoderConfig
from speculative_tts.models.decoder import Decoder, Layer
from speculative_tts.models.loading import build_decoder


def random_decoder(
    config: DecoderConfig,
    scales: Sequence[float],
    generator: torch.Generator,
    *,
    dtype: torch.dtype,
    device: torch.device,
) -> Decoder:
    """A decoder of one layer a scale, which says how much that layer adds.

    Layers of one scale are drawn once and copied, each into memory of its own: a step reads as much
    as with real weights, and a billion numbers need not be drawn.
    """
    kinds = {
        scale: build_decoder(
            replace(config, layers=1),
            _state(config, generator, scale),
            dtype=dtype,
            device=device,
            prefix="",
        )
        for scale in dict.fromkeys(scales)
    }
    layers = [_copied(kinds[scale].layers[0]) for scale in scales]
    return Decoder(replace(config, layers=len(layers)), layers, kinds[scales[0]].norm)


def _copied(layer: Layer) -> Layer:
    return Layer(*(matrix.copied() for matrix in layer.matrices()))


def _state(c: DecoderConfig, generator: torch.Generator, scale: float) -> dict[str, Tensor]:
    """State dict of a decoder of one layer, variance-preserving."""

    def matrix(rows: int, columns: int, size: float = 1.0) -> Tensor:
        return torch.randn(rows, columns, generator=generator) * (size / math.sqrt(columns))

    at, kv = "layers.0.", c.kv_heads * c.head_dim
    state = {"norm.weight": torch.ones(c.hidden)}
    for name, rows in (("q", c.heads * c.head_dim), ("k", kv), ("v", kv)):
        state[f"{at}self_attn.{name}_proj.weight"] = matrix(rows, c.hidden)
        state[f"{at}self_attn.{name}_proj.bias"] = torch.zeros(rows)
    state[f"{at}self_attn.o_proj.weight"] = matrix(c.hidden, c.heads * c.head_dim, scale)
    state[f"{at}mlp.gate_proj.weight"] = matrix(c.intermediate, c.hidden)
    state[f"{at}mlp.up_proj.weight"] = matrix(c.intermediate, c.hidden)
    state[f"{at}mlp.down_proj.weight"] = matrix(c.hidden, c.intermediate, scale)
    for norm in ("input_layernorm", "post_attention_layernorm"):
        state[f"{at}{norm}.weight"] = torch.ones(c.hidden)
    return state
