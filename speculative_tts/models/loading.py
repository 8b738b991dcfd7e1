"""Read Hugging Face checkpoints (config.json, safetensors) into the native decoder."""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from speculative_tts.models.config import DecoderConfig
from speculative_tts.models.decoder import Decoder, Layer

State = dict[str, Tensor]


def read_state(folder: Path) -> State:
    """All tensors of model.safetensors, or of the shards its index names.

    Raises ValueError when one is unreadable.
    """
    index = folder / "model.safetensors.index.json"
    single = folder / "model.safetensors"
    if single.is_file():
        files = [single]
    elif index.is_file():
        files = sorted(
            {folder / name for name in json.loads(index.read_text())["weight_map"].values()}
        )
    else:
        raise ValueError(
            f"no model.safetensors in {folder}; "
            "give a folder with config.json and model.safetensors"
        )
    state: State = {}
    for file in files:
        try:
            with safe_open(file, framework="pt") as tensors:
                state |= {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118
        except (SafetensorError, FileNotFoundError) as error:
            raise ValueError(
                f"{file} is not readable as safetensors ({error}); copy it again"
            ) from error
    return state


def build_decoder(
    config: DecoderConfig,
    state: State,
    *,
    dtype: torch.dtype,
    device: torch.device,
    prefix: str = "model.",
) -> Decoder:
    """The decoder of a state dict whose layer keys begin with `prefix`.

    Raises ValueError naming a missing or odd tensor.
    """
    read = _Reader(state, prefix, dtype, device)
    layers = [_layer(config, read, index) for index in range(config.layers)]
    return Decoder(config, layers, read.vector("norm.weight", config.hidden))


class _Reader:
    """Takes tensors out of a state dict, with their shape checked."""

    def __init__(self, state: State, prefix: str, dtype: torch.dtype, device: torch.device) -> None:
        self._state, self._prefix = state, prefix
        self._dtype, self._device = dtype, device

    def matrix(
        self, names: list[str], rows: list[int], columns: int, gain: str | None = None
    ) -> Tensor:
        """Stacked [out, in] matrices as one contiguous [in, out].

        Each input is scaled by the gain of the norm before it.
        """
        stacked = torch.cat([self._take(n, (r, columns)) for n, r in zip(names, rows, strict=True)])
        if gain is not None:
            stacked = stacked.float() * self._take(gain, (columns,)).float()
        return stacked.to(self._device, self._dtype).T.contiguous()

    def bias(self, present: bool, names: list[str], rows: list[int]) -> Tensor | None:
        """Stacked biases, or None for a family without them."""
        if not present:
            return None
        parts = [self._take(n, (r,)) for n, r in zip(names, rows, strict=True)]
        return torch.cat(parts).to(self._device, self._dtype)

    def vector(self, name: str, size: int) -> Tensor:
        """One vector."""
        return self._take(name, (size,)).to(self._device, self._dtype)

    def _take(self, name: str, shape: tuple[int, ...]) -> Tensor:
        key = self._prefix + name
        if key not in self._state:
            raise ValueError(
                f"checkpoint has no tensor {key}; config.json and weights do not belong together"
            )
        tensor = self._state[key]
        if tuple(tensor.shape) != shape:
            raise ValueError(
                f"{key} is {tuple(tensor.shape)}, config.json says {shape}; "
                "they do not belong together"
            )
        return tensor


def _layer(c: DecoderConfig, read: _Reader, index: int) -> Layer:
    at = f"layers.{index}."
    q, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
    qkv = [f"{at}self_attn.{n}_proj" for n in "qkv"]
    out, down = [f"{at}self_attn.o_proj"], [f"{at}mlp.down_proj"]
    gate_up = [f"{at}mlp.gate_proj", f"{at}mlp.up_proj"]
    wide = [c.intermediate] * 2

    def weight(names: list[str]) -> list[str]:
        return [f"{n}.weight" for n in names]

    def bias(names: list[str]) -> list[str]:
        return [f"{n}.bias" for n in names]

    return Layer(
        qkv=read.matrix(weight(qkv), [q, kv, kv], c.hidden, gain=f"{at}input_layernorm.weight"),
        qkv_bias=read.bias(c.qkv_bias, bias(qkv), [q, kv, kv]),
        out=read.matrix(weight(out), [c.hidden], q),
        out_bias=read.bias(c.out_bias, bias(out), [c.hidden]),
        gate_up=read.matrix(
            weight(gate_up), wide, c.hidden, gain=f"{at}post_attention_layernorm.weight"
        ),
        gate_up_bias=read.bias(c.mlp_bias, bias(gate_up), wide),
        down=read.matrix(weight(down), [c.hidden], c.intermediate),
        down_bias=read.bias(c.mlp_bias, bias(down), [c.hidden]),
    )
