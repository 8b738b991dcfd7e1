"""Name what kernels of a step take together, an argument each, without torch and Triton.

A field is a tensor's first number, or a number; what a kernel may lack is None, with which it is
compiled for itself. Constants of a kernel (`tl.constexpr`) are tuples too.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class ProductExtras(NamedTuple):
    """Tensors that are added to a product's outputs, and the norm they are divided by before."""

    bias: "Tensor | None"  # [N], or [2 N] if gated
    addend: "Tensor | None"  # [M, N]
    floor2: float | None  # what the norm adds to the sum of squares


class ProductSizes(NamedTuple):
    """Rows, outputs and inputs of a product."""

    M: int
    N: int
    K: int


class ProductFlags(NamedTuple):
    """Constants of all products: see `kernels.product`."""

    silu: bool
    gated: bool
    pdl: int


class GemvConstants(NamedTuple):
    """Constants of a product of few rows."""

    m: int  # rows
    mb: int  # at least m, a power of two
    bn: int  # outputs of a program
    b1: int  # inputs of a first and a second part, powers of two
    b2: int  # 0: there is no second


class RowsConstants(NamedTuple):
    """Constants of a product whose weights come in tiles."""

    bn: int  # outputs of a program
    bk: int  # inputs of a tile
    mb: int  # at least the rows, a power of two
    even: bool  # bk divides the inputs
    stages: int
    lines: int  # of each output's weights, asked for before the wait


class HeldConstants(NamedTuple):
    """Constants of a product whose weights a block holds."""

    bn: int  # outputs of a program
    bk: int  # inputs of a warp's step
    mb: int  # at least the rows, a power of two
    shares: int  # warps, each with its share of the inputs
    steps: int
    even: bool  # all shares are equal


class AddedRows(NamedTuple):
    """Rows [rows, K] that are added before a norm, and those that the sum is written to."""

    addend: "Tensor"
    total: "Tensor"


class RowNorm(NamedTuple):
    """An RMSNorm of rows."""

    gain: "Tensor | None"  # [K]
    floor2: float  # what it adds to the sum of squares


class PastPositions(NamedTuple):
    """One layer's keys and values of a batch, [batch, KV, capacity, D] each.

    The fields cannot be `keys` and `values`: Triton's tuples have values of their own.
    """

    past_keys: "Tensor"
    past_values: "Tensor"
    capacity: int


class Turning(NamedTuple):
    """Turns of queries and keys, and norms before them, unless gains is None."""

    turns: "Tensor"  # float32 [positions, D], cosines and sines in pairs
    gains: "Tensor | None"  # float32 [HEADS + KV, D]
    floor2: float  # what a norm adds to the sum of squares


class NewPositions(NamedTuple):
    """Queries, keys and values of new positions, as the product gives them."""

    fused: "Tensor"  # [rows, (HEADS + 2 KV) D]
    start: "Tensor"  # int64 [batch], position of the first
    number: int  # of each row of the batch
    rows: int  # batch * number


class AttentionParts(NamedTuple):
    """Scratch memory of a row's parts, which the last program to end joins."""

    parts: "Tensor"  # float32 [splits + 1, rows, HEADS, D]
    peaks: "Tensor"  # float32 [splits + 1, rows, HEADS], log sums
    tickets: "Tensor"  # int32 zeros


class HeadConstants(NamedTuple):
    """Constants of a stack's heads."""

    heads: int
    kv: int
    d: int  # numbers of a head
    db: int  # at least d, a power of two


class AttentionConstants(NamedTuple):
    """Constants of the attention of a step."""

    heads: int
    kv: int
    d: int  # numbers of a head
    db: int  # at least d, a power of two
    qb: int  # at least the queries of a kv head, a power of two
    nb: int  # at least the new positions, a power of two
    kb: int  # old positions that are read at a time
    splits: int  # programs of a kv head for old positions; 0: one for all
    pdl: bool
