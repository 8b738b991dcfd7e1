"""Build decoders of any size with random weights, to time steps without checkpoints."""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.decoder.decoder import Decoder
from speculative_tts.models.decoder.loading import build_decoder
from speculative_tts.models.decoder.stack import DecoderLayer

State = dict[str, Tensor]  # tensors of a one-layer decoder, named as in checkpoints


def random_decoder(
    config: DecoderConfig,
    scales: Sequence[float],
    generator: torch.Generator,
    *,
    dtype: torch.dtype,
    device: torch.device,
) -> Decoder:
    """Build a decoder with a layer per scale; the scale multiplies what the layer adds."""
    return decoder_of(config, random_layers(config, scales, generator), dtype=dtype, device=device)


def random_layers(
    config: DecoderConfig, scales: Sequence[float], generator: torch.Generator
) -> list[State]:
    """Return a state per layer; layers of one scale share one draw, to save time."""
    kinds = {scale: _state(config, generator, scale) for scale in dict.fromkeys(scales)}
    return [kinds[scale] for scale in scales]


def decoder_of(
    config: DecoderConfig, layers: Sequence[State], *, dtype: torch.dtype, device: torch.device
) -> Decoder:
    """Build a decoder that copies each layer, so that a step reads as much as real weights."""
    one = replace(config, layers=1)
    kinds = {
        id(state): build_decoder(one, state, dtype=dtype, device=device, prefix="")
        for state in {id(state): state for state in layers}.values()
    }
    made = [_copied(kinds[id(state)].layers[0]) for state in layers]
    return Decoder(replace(config, layers=len(made)), made, kinds[id(layers[0])].norm)


def _copied(layer: DecoderLayer) -> DecoderLayer:
    qkv, out, gate_up, down = (matrix.copied() for matrix in layer.matrices())
    return DecoderLayer(qkv, out, gate_up, down, layer.gains)


def _state(c: DecoderConfig, generator: torch.Generator, scale: float) -> State:
    """Draw the state dict of a one-layer decoder, variance-preserving."""

    def matrix(rows: int, columns: int, size: float = 1.0) -> Tensor:
        return torch.randn(rows, columns, generator=generator) * (size / math.sqrt(columns))

    at, kv = "layers.0.", c.kv_heads * c.head_dim
    state = {"norm.weight": torch.ones(c.hidden)}
    for name, rows in (("q", c.heads * c.head_dim), ("k", kv), ("v", kv)):
        state[f"{at}self_attn.{name}_proj.weight"] = matrix(rows, c.hidden)
        if c.qkv_bias:
            state[f"{at}self_attn.{name}_proj.bias"] = torch.zeros(rows)
        if c.head_norms and name != "v":
            state[f"{at}self_attn.{name}_norm.weight"] = torch.ones(c.head_dim)
    state[f"{at}self_attn.o_proj.weight"] = matrix(c.hidden, c.heads * c.head_dim, scale)
    state[f"{at}mlp.gate_proj.weight"] = matrix(c.intermediate, c.hidden)
    state[f"{at}mlp.up_proj.weight"] = matrix(c.intermediate, c.hidden)
    state[f"{at}mlp.down_proj.weight"] = matrix(c.hidden, c.intermediate, scale)
    for norm in ("input_layernorm", "post_attention_layernorm"):
        state[f"{at}{norm}.weight"] = torch.ones(c.hidden)
    return state
