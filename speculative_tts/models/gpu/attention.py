"""Attention of a step on a GPU: `attend` in Triton, and `reference` of the same in torch."""

import functools
from typing import NamedTuple

import torch
from torch import Tensor

from speculative_tts.models.gpu import tiles
from speculative_tts.models.gpu.arguments import (
    AttentionConstants,
    AttentionParts,
    NewPositions,
    PastPositions,
    Turning,
)
from speculative_tts.models.gpu.tiles import AttentionHeads
from speculative_tts.models.gpu.triton_runtime import launch, launches_early, power_of_2

WIDEST = 64  # queries that share a kv head, those of all new positions
LEAST = 16  # rows and columns of a matrix unit's tile
MOST_PAIRS = 4096  # rows times kv heads


class Stored(NamedTuple):
    """One layer's keys and values of a batch, [batch, kv_heads, capacity, head_dim] each."""

    keys: Tensor
    values: Tensor

    @property
    def capacity(self) -> int:
        """Positions a row can hold."""
        return self.keys.shape[2]

    def given(self) -> PastPositions:
        """Return them as kernels take them."""
        return PastPositions(self.keys, self.values, self.capacity)


class Turns(NamedTuple):
    """The way of queries and keys before attention: RoPE, and before it an RMSNorm of each head.

    table: float32 [positions, head_dim], cosine and sine of each pair. gains: float32 [heads +
    kv_heads, head_dim], None without norms; floor2: what a norm adds to the sum of squares.
    """

    table: Tensor
    gains: Tensor | None = None
    floor2: float = 0.0

    def given(self) -> Turning:
        """Return it as kernels take it."""
        return Turning(*self)

    def normed(self, x: Tensor) -> Tensor:
        """Norm queries and keys [..., heads + kv_heads, head_dim]."""
        if self.gains is None:
            return x
        return x / (x.square().sum(-1, keepdim=True) + self.floor2).sqrt() * self.gains


def fits(heads: AttentionHeads, batch: int, new: int) -> bool:
    """Return whether `attend` takes so many new positions of so many rows."""
    shared = heads.heads // heads.kv_heads * new
    return shared <= WIDEST and batch * heads.kv_heads <= MOST_PAIRS


def attend(
    heads: AttentionHeads,
    fused: Tensor,
    stored: Stored,
    turns: Turns,
    start: Tensor,
    *,
    early: bool = False,
    tile: tiles.AttentionTile | None = None,
) -> Tensor:
    """Turn queries and keys, store keys and values, and attend to all up to each new position.

    fused: [batch * new, (heads + 2 kv_heads) head_dim]; start: int64 [batch]; early: the kernel
    before this one is ours and may be overtaken. Returns [batch * new, heads * head_dim].
    """
    from speculative_tts.models.gpu.kernels.attention import attention_kernel

    (h, kv, d), device, batch = heads, fused.device, len(start)
    rows = len(fused)
    new, pairs, pdl = rows // batch, batch * kv, early and launches_early(device)
    tile = tile or tiles.of_attention(device, heads, fused.dtype, batch, new)
    out = torch.empty(rows, h * d, dtype=fused.dtype, device=device)
    parts = peaks = out
    if tile.splits:
        parts = torch.empty(tile.splits + 1, rows, h * d, device=device)
        peaks = torch.empty(tile.splits + 1, rows, h, device=device)
    queries, least = power_of_2(h // kv * new, LEAST), power_of_2(new, LEAST)
    shape = AttentionConstants(
        h, kv, d, power_of_2(d, LEAST), queries, least, tile.columns, tile.splits, pdl
    )
    launch(
        attention_kernel, (pairs * (tile.splits + 1),),
        NewPositions(fused, start, new, rows), stored.given(), turns.given(), out,
        AttentionParts(parts, peaks, _tickets(device)),
        SHAPE=shape, num_warps=tile.warps, pdl=pdl,
    )  # fmt: skip
    return out


def reference(
    heads: AttentionHeads, fused: Tensor, stored: Stored, turns: Turns, start: Tensor
) -> Tensor:
    """Compute the same with torch, a row at a time."""
    (h, kv, d), batch = heads, len(start)
    wide = fused.view(batch, -1, h + 2 * kv, d)
    new, out = wide.shape[1], []
    for row, begin in enumerate(start.tolist()):
        angle = torch.view_as_complex(turns.table[begin : begin + new].view(new, 1, d // 2, 2))
        pairs = turns.normed(wide[row, :, : h + kv].float()).reshape(new, h + kv, d // 2, 2)
        turned = (
            torch.view_as_real(torch.view_as_complex(pairs) * angle).flatten(-2).to(fused.dtype)
        )
        stored.keys[row, :, begin : begin + new] = turned[:, h:].transpose(0, 1)
        stored.values[row, :, begin : begin + new] = wide[row, :, h + kv :].transpose(0, 1)
        queries = turned[:, :h].transpose(0, 1).float()
        keys, values = (
            one[row, :, : begin + new].float().repeat_interleave(h // kv, 0) for one in stored
        )
        hidden = torch.ones(new, begin + new, dtype=torch.bool, device=fused.device)
        scores = (queries @ keys.mT).masked_fill(hidden.triu(begin + 1), -torch.inf)
        out.append((scores.softmax(-1) @ values).transpose(0, 1).reshape(new, h * d))
    return torch.cat(out).to(fused.dtype)


@functools.cache
def _tickets(device: torch.device) -> Tensor:
    """Return counters of parts that are done, zeros between kernels."""
    with torch.inference_mode(False):  # kept for callers in and out of it
        return torch.zeros(MOST_PAIRS, dtype=torch.int32, device=device)
