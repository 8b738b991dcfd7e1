"""Matrices stored in 8 bits, as some tiny models ship: int8 rows, and the scale of each row.

`weight` is stored as `weight` (int8) beside `weight.scale` (float32); `unpack` gives float16.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int8
from torch import Tensor

SCALE = ".scale"
LARGEST = 127


def pack(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices in 8 bits; vectors and biases, which are few, as they are."""
    packed = {}
    for name, tensor in tensors.items():
        if tensor.ndim < 2 or name.endswith("bias"):
            packed[name] = tensor
            continue
        packed[name], packed[name + SCALE] = rounded(tensor)
    return packed


def unpack(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What was packed as float16, all else as it is."""
    return {
        name: unpacked(tensor, tensors[name + SCALE]) if name + SCALE in tensors else tensor
        for name, tensor in tensors.items()
        if name.removesuffix(SCALE) == name or name.removesuffix(SCALE) not in tensors
    }


def rounded(
    matrix: Float[Tensor, "*rows columns"],
) -> tuple[Int8[Tensor, "*rows columns"], Float[Tensor, "*rows"]]:
    """A matrix, or several, in 8 bits, and the scale of each row, in float32."""
    scale = matrix.float().abs().amax(-1).clamp_min(torch.finfo(torch.float32).tiny) / LARGEST
    return (matrix.float() / scale[..., None]).round().to(torch.int8), scale


def unpacked(
    stored: Int8[Tensor, "*rows columns"], scale: Float[Tensor, "*rows"]
) -> Float[Tensor, "*rows columns"]:
    """Some rows of a packed matrix."""
    return (stored * scale[..., None]).half()
