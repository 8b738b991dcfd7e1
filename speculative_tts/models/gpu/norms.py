"""Operations between products on a GPU, in Triton: norms, SwiGLU, RoPE of a prefill, copies."""

import torch
from torch import Tensor

from speculative_tts.models.gpu.arguments import AddedRows, HeadConstants, RowNorm
from speculative_tts.models.gpu.attention import LEAST, Stored, Turns
from speculative_tts.models.gpu.tiles import AttentionHeads
from speculative_tts.models.gpu.triton_runtime import launch, launches_early, power_of_2

GATES = 1024  # outputs of a program


def normed(
    x: Tensor,
    floor2: float,
    addend: Tensor | None = None,
    gain: Tensor | None = None,
    *,
    early: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return x + addend, and that divided by sqrt(|.|^2 + floor2), times gain: [rows, hidden]."""
    from speculative_tts.models.gpu.kernels.norm import norm_kernel

    rows, k = x.shape
    added = None if addend is None else AddedRows(addend, torch.empty_like(x))
    out, pdl = torch.empty_like(x), early and launches_early(x.device)
    launch(
        norm_kernel, (rows,), x, added, RowNorm(gain, floor2), out, k,
        KB=power_of_2(k), PDL=pdl, num_warps=4 if k <= 2048 else 8, pdl=pdl,
    )  # fmt: skip
    return x if added is None else added.total, out


def gated(wide: Tensor) -> Tensor:
    """Return silu of the first half of columns times the second half."""
    from speculative_tts.models.gpu.kernels.norm import gate_kernel

    rows, both = wide.shape
    out = wide.new_empty(rows, both // 2)
    grid = (rows, -(-both // 2 // GATES))
    launch(gate_kernel, grid, wide, out, both // 2, B=GATES, num_warps=4)
    return out


def gathered(ids: Tensor, table: Tensor) -> Tensor:
    """Return table[ids] of a table [rows, hidden]: [..., hidden]."""
    from speculative_tts.models.gpu.kernels.norm import gather_kernel

    k, pdl = table.shape[1], launches_early(table.device)
    out = table.new_empty(*ids.shape, k)
    grid = (ids.numel(), -(-k // GATES))
    launch(gather_kernel, grid, ids.contiguous(), table, out, k, B=GATES, PDL=pdl, pdl=pdl)
    return out


def joined(states: Tensor, inputs: Tensor, dtype: torch.dtype) -> Tensor:
    """Return [states, inputs] of each row in a format, both [rows, hidden]."""
    from speculative_tts.models.gpu.kernels.norm import join_kernel

    rows, k = states.shape
    out, pdl = states.new_empty(rows, 2 * k, dtype=dtype), launches_early(states.device)
    grid, both = (rows, -(-k // GATES)), (states.contiguous(), inputs.contiguous())
    launch(join_kernel, grid, *both, out, k, B=GATES, PDL=pdl, pdl=pdl)
    return out


def spread(few: Tensor, places: Tensor) -> Tensor:
    """Return few[row, places[id]] of every id, -inf where its place is -1: float32 [rows, ids]."""
    from speculative_tts.models.gpu.kernels.norm import spread_kernel

    rows, size = few.shape
    out = few.new_empty(rows, len(places))
    grid = (rows, -(-len(places) // GATES))
    launch(spread_kernel, grid, few.contiguous(), places, out, size, len(places), B=GATES)
    return out


def rotate(
    heads: AttentionHeads, fused: Tensor, stored: Stored, turns: Turns, rows: Tensor
) -> None:
    """Norm and turn a prefill's queries and keys where they lie and store its keys and values.

    Shapes as in `attention.attend`; positions count from 0; rows: int64 [batch], those of `stored`
    to fill.
    """
    from speculative_tts.models.gpu.kernels.attention import rotate_kernel

    h, kv, d = heads
    launch(
        rotate_kernel, (len(fused),), fused, stored.given(), turns.given(), rows,
        len(fused) // len(rows), SHAPE=HeadConstants(h, kv, d, power_of_2(d, LEAST)),
        HB=power_of_2(h + 2 * kv), num_warps=4,
    )  # fmt: skip
