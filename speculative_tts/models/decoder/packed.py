"""Matrices stored in 8 bits with their scales: our own, as some tiny models ship, and of others.

Ours: `weight` (int8) beside `weight.scale` (float32, a row's); `unpack` gives float16. Of others,
which become float32: `weight` (int8 or fp8) beside `weight_scale` (compressed-tensors) or `SCB`
(bitsandbytes, in 127ths), one for the matrix or one a row; or beside `weight_scale_inv` (fp8 in
blocks, as of DeepSeek-V3), by which each square of 128 x 128 is multiplied, whatever its name says.
Scales of inputs are of a product in 8 bits, which is not done here. All other integers and fp8
numbers are refused by name.
"""

from collections.abc import Collection, Mapping

import torch
from jaxtyping import Float, Int8
from torch import Tensor

from speculative_tts.state_dicts import PLAIN

SCALE = ".scale"
LARGEST = 127
EIGHT_BITS = (torch.int8, torch.float8_e4m3fn, torch.float8_e5m2)
SCALES = {"weight_scale": 1, "SCB": LARGEST}  # name after a module's, and its unit's inverse
BLOCKS, BLOCK = "weight_scale_inv", 128  # rows and columns that share a scale
UNNEEDED = ("input_scale", "activation_scale", "weight_format")


def pack(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Pack matrices in 8 bits; leave vectors and biases, which are few, as they are."""
    packed = {}
    for name, tensor in tensors.items():
        if tensor.ndim < 2 or name.endswith("bias"):
            packed[name] = tensor
            continue
        packed[name], packed[name + SCALE] = rounded(tensor)
    return packed


def unpack(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return unpacked what was packed as float16, 8 bits of others as float32, all else as is."""
    plain, scales = {}, set()
    for name, tensor in tensors.items():
        if tensor.dtype not in EIGHT_BITS:
            plain[name] = tensor
        elif tensor.dtype is torch.int8 and name + SCALE in tensors:
            plain[name] = unpacked(tensor, tensors[name + SCALE], name)
            scales.add(name + SCALE)
        else:
            plain[name], own = _dequantised(name, tensors)
            scales |= own
    return {name: tensor for name, tensor in plain.items() if name not in scales}


def _dequantised(name: str, tensors: Mapping[str, Tensor]) -> tuple[Tensor, set[str]]:
    """Return a matrix of another program in float32, and the names of its scales.

    A matrix whose scales are not known stays as it is.
    """
    stored, stem = tensors[name], name.removesuffix("weight")
    scale = tensors.get(stem + BLOCKS)
    if scale is not None and stored.ndim == 2 and scale.shape == _blocks(stored):
        rows, columns = stored.shape
        spread = scale.float().repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
        beside = {stem + one for one in (BLOCKS, *UNNEEDED)}
        return stored.float() * spread[:rows, :columns], beside
    for own, unit in SCALES.items():
        scale = tensors.get(stem + own)
        if scale is not None and stored.ndim == 2 and _by_row(scale, len(stored)):
            beside = {stem + one for one in (own, *UNNEEDED)}
            return stored.float() * (scale.float() / unit).view(-1, 1), beside
    return stored, set()


def _blocks(matrix: Tensor) -> tuple[int, ...]:
    """Return how many blocks of rows and of columns a matrix has, the last ones perhaps cut."""
    return tuple(-(-size // BLOCK) for size in matrix.shape)


def _by_row(scale: Tensor, rows: int) -> bool:
    """Return True for one scale, or one a row; others are of columns or blocks."""
    one_a_row = tuple(scale.shape) in {(rows,), (rows, 1)}
    return scale.is_floating_point() and (scale.numel() == 1 or one_a_row)


def require_plain(
    where: object, tensors: Mapping[str, Tensor], whole: Collection[str] = ()
) -> None:
    """Raise ValueError for weights that are no plain floating-point numbers; `whole` are ids."""
    for name, tensor in tensors.items():
        if tensor.dtype not in PLAIN and name not in whole:
            kind = str(tensor.dtype).removeprefix("torch.")
            raise ValueError(
                f"{where}: {name} is {kind}, quantised in a way that is not read here; dequantise "
                "the checkpoint (transformers: model.dequantize().save_pretrained(<folder>))"
            )


def rounded(
    matrix: Float[Tensor, "*rows columns"],
) -> tuple[Int8[Tensor, "*rows columns"], Float[Tensor, "*rows"]]:
    """Round a matrix, or several, to 8 bits; return it and the scale of each row, in float32."""
    scale = matrix.float().abs().amax(-1).clamp_min(torch.finfo(torch.float32).tiny) / LARGEST
    return (matrix.float() / scale[..., None]).round().to(torch.int8), scale


def unpacked(
    stored: Int8[Tensor, "*rows columns"], scale: Tensor, name: str = "weight"
) -> Float[Tensor, "*rows columns"]:
    """Unpack some rows of a packed matrix; ValueError unless there is a scale for each row."""
    if scale.shape != stored.shape[:-1]:
        raise ValueError(
            f"{name + SCALE} is {tuple(scale.shape)}, one for each row is "
            f"{tuple(stored.shape[:-1])}; make the file again"
        )
    return (stored * scale[..., None]).half()
