"""Products of few rows on a GPU: `product` in Triton, and `reference` of the same in torch."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from speculative_tts.models.gpu import tiles, tuning
from speculative_tts.models.gpu.arguments import (
    GemvConstants,
    HeldConstants,
    ProductExtras,
    ProductFlags,
    ProductSizes,
    RowsConstants,
)
from speculative_tts.models.gpu.tiles import FEW, GemvTile, HeldTile, ProductShape
from speculative_tts.models.gpu.triton_runtime import launch, launches_early, power_of_2

LEAST = 8  # rows of a matrix unit's tile


class Fused(NamedTuple):
    """Options of a product beside the product: `kernels.product` explains each."""

    bias: Tensor | None = None
    addend: Tensor | None = None
    floor2: float | None = None  # of the RMSNorm before it: hidden * eps
    gated: bool = False
    silu: bool = False
    opens: bool = False  # lets the next kernel start at once, which reads but weights at first


PLAIN = Fused()


def product(
    x: Tensor,
    weight: Tensor,
    fused: Fused = PLAIN,
    *,
    dtype: torch.dtype | None = None,
    tile: tiles.Product | None = None,
) -> Tensor:
    """Compute x [rows, in] times weight' [out, in] (twice as many if gated), up to FEW rows.

    Both contiguous, of one format; dtype: the result's, by default theirs. The addend is no result
    of the kernel just before.
    """
    from speculative_tts.models.gpu.kernels.product import gemv_kernel, held_kernel, rows_kernel

    (rows, k), pdl = x.shape, launches_early(x.device)
    n = len(weight) // 2 if fused.gated else len(weight)
    assert rows <= FEW
    assert (weight.shape[1], weight.dtype) == (k, x.dtype)
    assert x.is_contiguous()
    assert weight.is_contiguous()
    out = torch.empty(rows, n, dtype=dtype or x.dtype, device=x.device)
    extras = ProductExtras(fused.bias, fused.addend, fused.floor2)
    flags = ProductFlags(fused.silu, fused.gated, 2 if pdl and fused.opens else int(pdl))
    sizes = ProductSizes(rows, n, k)
    shape = ProductShape(n, k, fused.gated)
    tile = tile or tuning.of_product(x.device, shape, x.dtype, rows, _work)
    kernel: Any
    made: NamedTuple
    if isinstance(tile, GemvTile):
        kernel = gemv_kernel
        made = GemvConstants(rows, power_of_2(rows), tile.outputs, *halves(k))
    elif isinstance(tile, HeldTile):
        kernel, mb = held_kernel, power_of_2(rows, LEAST)
        steps, even = tile.steps(k), tile.even(k)
        made = HeldConstants(tile.outputs, tile.inputs, mb, tile.warps, steps, even)
    else:
        kernel, even = rows_kernel, k % tile.inputs == 0
        lines = _lines(min(k, tile.ahead) * x.itemsize)
        made = RowsConstants(tile.outputs, tile.inputs, FEW, even, tile.stages, lines)
    launch(
        kernel, (-(-n // tile.outputs),), x, weight, extras, out, sizes,
        TILE=made, FLAGS=flags, num_warps=tile.warps, pdl=pdl,
    )  # fmt: skip
    return out


def reference(
    x: Tensor, weight: Tensor, fused: Fused = PLAIN, *, dtype: torch.dtype | None = None
) -> Tensor:
    """Compute the same with torch, in float32 or more until the result is rounded."""
    wide = x.double() if x.dtype is torch.float64 else x.float()
    y = wide @ weight.to(wide.dtype).T
    if fused.floor2 is not None:
        y = y / (wide.square().sum(-1, keepdim=True) + fused.floor2).sqrt()
    if fused.bias is not None:
        y = y + fused.bias
    if fused.silu:
        y = F.silu(y)
    if fused.gated:
        gate, up = y.chunk(2, -1)
        y = F.silu(gate) * up
    if fused.addend is not None:
        y = y + fused.addend
    return y.to(dtype or x.dtype)


def _work(x: Tensor, weight: Tensor, shape: ProductShape, tile: tiles.Product) -> Tensor:
    """Do a product as most in a decoder are, to time its tile."""
    return product(x, weight, Fused(floor2=1.0, gated=shape.gated), tile=tile)


def _lines(size: int) -> int:
    """Return how many lines of the L2 cache hold so many bytes, as a power of two or zero."""
    return power_of_2(-(-size // 128)) if size else 0


def halves(k: int) -> tuple[int, int]:
    """Return one or two powers of two whose sum holds k with little waste; 0: no second."""
    whole = power_of_2(k)
    half = whole // 2
    rest = power_of_2(k - half) if k > half else 0
    return (whole, 0) if k <= 128 or half + rest >= whole else (half, rest)
