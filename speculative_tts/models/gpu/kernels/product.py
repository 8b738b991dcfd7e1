"""Triton kernels of products with few rows, with what precedes and follows a product fused in.

All compute, for each row m and output n,

    y = sum_k x[m, k] w[n, k]      [N, K] weights, one output's inputs side by side
    y = y / sqrt(|x[m]|^2 + floor2)      RMSNorm, whose gain and factor the weight carries
    y = y + bias[n]
    y = silu(y)                          SILU
    y = silu(y) * y_up                   GATED: w has 2 N rows, those of `up` after those of `gate`
    y = y + addend[m, n]

of which floor2, bias and addend may be None.

PDL: a block asks for all that the kernel before it does not write, its weights above all, before it
waits for that kernel. With PDL = 1 it lets the next kernel start after that wait: all that was
written two kernels ago is there when a kernel starts, the addend among it. With PDL = 2 it lets the
next kernel start at once, so that its weights come while this one's inputs are still computed. The
next kernel may then read nothing but weights before its wait.
"""

from typing import no_type_check

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from speculative_tts.models.gpu.arguments import ProductExtras, ProductSizes


@triton.jit
@no_type_check
def _addends(extras: ProductExtras, n, m, N, M, GATED: tl.constexpr):
    """Load what is added to outputs n of rows m: biases [BN, 1], of `up` too, and [BN, MB]."""
    shift = tl.zeros([n.shape[0], 1], tl.float32)
    shift_up = shift
    added = tl.zeros([n.shape[0], m.shape[0]], tl.float32)
    if extras.bias is not None:
        shift += tl.load(extras.bias + n, mask=n < N, other=0.0).to(tl.float32)[:, None]
    if extras.bias is not None and GATED:
        shift_up += tl.load(extras.bias + N + n, mask=n < N, other=0.0).to(tl.float32)[:, None]
    if extras.addend is not None:
        inside = (n < N)[:, None] & (m < M)[None, :]
        at = extras.addend + m[None, :] * N + n[:, None]
        added += tl.load(at, mask=inside, other=0.0).to(tl.float32)
    return shift, shift_up, added


@triton.jit
@no_type_check
def _ordered(PDL: tl.constexpr):
    """Wait for the kernel before this one, and let the next one start: see this module."""
    if PDL == 2:
        gdc_launch_dependents()
    if PDL:
        gdc_wait()
    if PDL == 1:
        gdc_launch_dependents()


@triton.jit
@no_type_check
def _finished(sums, addends, out, place, floor2, FLAGS: tl.constexpr):
    """Do what follows the sums y [BN, MB] of outputs n and rows m, and store them."""
    SILU: tl.constexpr = FLAGS.silu
    GATED: tl.constexpr = FLAGS.gated
    y, y_up, squares = sums
    shift, shift_up, added = addends
    n, m, N, M = place
    if floor2 is not None:
        scale = (1.0 / tl.sqrt(squares + floor2))[None, :]
        y, y_up = y * scale, y_up * scale
    y += shift
    if SILU:
        y = y / (1.0 + tl.exp(-y))
    if GATED:
        y = y / (1.0 + tl.exp(-y)) * (y_up + shift_up)
    y += added
    at = m[None, :] * N + n[:, None]
    inside = (n < N)[:, None] & (m < M)[None, :]
    tl.store(out + at, y.to(out.dtype.element_ty), mask=inside)


@triton.jit
@no_type_check
def gemv_kernel(
    x, w, extras: ProductExtras, out, sizes: ProductSizes, TILE: tl.constexpr, FLAGS: tl.constexpr
):  # fmt: skip
    """Compute BN outputs of all M rows in a block that holds all their weights in registers.

    TILE: GemvConstants, b1 + b2 >= K. The sums of a row do not depend on M.
    """
    M: tl.constexpr = TILE.m
    MB: tl.constexpr = TILE.mb
    BN: tl.constexpr = TILE.bn
    B1: tl.constexpr = TILE.b1
    B2: tl.constexpr = TILE.b2
    GATED: tl.constexpr = FLAGS.gated
    N, K = sizes.N, sizes.K
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    n_in = (n < N)[:, None]
    k1 = tl.arange(0, B1)
    at = w + n[:, None].to(tl.int64) * K
    w1 = tl.load(at + k1[None, :], mask=n_in & (k1 < K)[None, :], other=0.0)
    if B2:
        k2 = B1 + tl.arange(0, B2)
        w2 = tl.load(at + k2[None, :], mask=n_in & (k2 < K)[None, :], other=0.0)
    if GATED:
        up = at + N.to(tl.int64) * K
        u1 = tl.load(up + k1[None, :], mask=n_in & (k1 < K)[None, :], other=0.0)
        if B2:
            u2 = tl.load(up + k2[None, :], mask=n_in & (k2 < K)[None, :], other=0.0)
    rows = tl.arange(0, MB)
    addends = _addends(extras, n, rows, N, M, GATED)
    _ordered(FLAGS.pdl)
    first, second = (), ()  # all rows are asked for before the first one's sums need its numbers
    for m in tl.static_range(M):
        first = first + (tl.load(x + m * K + k1, mask=k1 < K, other=0.0),)
        if B2:
            second = second + (tl.load(x + m * K + k2, mask=k2 < K, other=0.0),)
    y = tl.zeros([BN, MB], tl.float32)
    y_up = tl.zeros([BN, MB], tl.float32)
    squares = tl.zeros([MB], tl.float32)
    for m in tl.static_range(M):
        x1 = first[m].to(tl.float32)
        own = tl.sum(w1.to(tl.float32) * x1[None, :], 1)
        if GATED:
            own_up = tl.sum(u1.to(tl.float32) * x1[None, :], 1)
        if extras.floor2 is not None:
            own_squares = tl.sum(x1 * x1, 0)
        if B2:
            x2 = second[m].to(tl.float32)
            own += tl.sum(w2.to(tl.float32) * x2[None, :], 1)
            if GATED:
                own_up += tl.sum(u2.to(tl.float32) * x2[None, :], 1)
            if extras.floor2 is not None:
                own_squares += tl.sum(x2 * x2, 0)
        y = tl.where((rows == m)[None, :], own[:, None], y)
        if GATED:
            y_up = tl.where((rows == m)[None, :], own_up[:, None], y_up)
        if extras.floor2 is not None:
            squares = tl.where(rows == m, own_squares, squares)
    _finished((y, y_up, squares), addends, out, (n, rows, N, M), extras.floor2, FLAGS)


@triton.jit
@no_type_check
def _asked_for(w, n, N, K, LINES: tl.constexpr):
    """Ask the L2 cache for the first LINES lines of 128 bytes of weights of outputs n."""
    size: tl.constexpr = w.dtype.element_ty.primitive_bitwidth // 8
    at = tl.minimum(tl.arange(0, LINES) * (128 // size), K - 1)
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l",
        [w + tl.minimum(n, N - 1)[:, None].to(tl.int64) * K + at[None, :]],
        dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@triton.jit
@no_type_check
def rows_kernel(
    x, w, extras: ProductExtras, out, sizes: ProductSizes, TILE: tl.constexpr, FLAGS: tl.constexpr
):  # fmt: skip
    """Compute BN outputs of up to MB rows on matrix units, the weights in tiles of BK inputs.

    TILE: RowsConstants. A row's sums do not depend on the others; |x|^2 is the diagonal of x x'.
    """
    BN: tl.constexpr = TILE.bn
    BK: tl.constexpr = TILE.bk
    MB: tl.constexpr = TILE.mb
    EVEN: tl.constexpr = TILE.even
    LINES: tl.constexpr = TILE.lines
    GATED: tl.constexpr = FLAGS.gated
    PDL: tl.constexpr = FLAGS.pdl
    NORM: tl.constexpr = extras.floor2 is not None
    M, N, K = sizes.M, sizes.N, sizes.K
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    m = tl.arange(0, MB)
    k = tl.arange(0, BK)
    n_in = (n < N)[:, None]
    m_in = (m < M)[None, :]
    at = w + n[:, None].to(tl.int64) * K + k[None, :]
    up = at + N.to(tl.int64) * K
    source = x + m[None, :] * K + k[:, None]
    y = tl.zeros([BN, MB], tl.float32)
    y_up = tl.zeros([BN, MB], tl.float32)
    gram = tl.zeros([MB, MB], tl.float32)
    if PDL and LINES:
        _asked_for(w, n, N, K, LINES)
    if PDL and LINES and GATED:
        _asked_for(w + N.to(tl.int64) * K, n, N, K, LINES)
    addends = _addends(extras, n, m, N, M, GATED)
    _ordered(PDL)
    for k0 in tl.range(0, K, BK, num_stages=TILE.stages):
        w_in, x_in = n_in, m_in
        if not EVEN:
            w_in = n_in & (k0 + k < K)[None, :]
            x_in = m_in & (k0 + k < K)[:, None]
        fed = tl.load(source + k0, mask=x_in, other=0.0)
        y = tl.dot(tl.load(at + k0, mask=w_in, other=0.0), fed, y, input_precision="ieee")
        if GATED:
            tile = tl.load(up + k0, mask=w_in, other=0.0)
            y_up = tl.dot(tile, fed, y_up, input_precision="ieee")
        if NORM:
            gram = tl.dot(tl.trans(fed), fed, gram, input_precision="ieee")
    squares = tl.sum(tl.where(m[:, None] == m[None, :], gram, 0.0), 0)
    _finished((y, y_up, squares), addends, out, (n, m, N, M), extras.floor2, FLAGS)


@triton.jit
@no_type_check
def held_kernel(
    x, w, extras: ProductExtras, out, sizes: ProductSizes, TILE: tl.constexpr, FLAGS: tl.constexpr
):  # fmt: skip
    """Compute BN outputs of up to MB rows on matrix units in a block that holds all their weights.

    They are in shared memory before the wait, whatever the kernel before still computes. Each warp
    has a share of the inputs: STEPS * SHARES * BK >= K. A row's sums do not depend on the others.
    TILE: HeldConstants.
    """
    BN: tl.constexpr = TILE.bn
    BK: tl.constexpr = TILE.bk
    MB: tl.constexpr = TILE.mb
    SHARES: tl.constexpr = TILE.shares
    STEPS: tl.constexpr = TILE.steps
    EVEN: tl.constexpr = TILE.even
    GATED: tl.constexpr = FLAGS.gated
    NORM: tl.constexpr = extras.floor2 is not None
    M, N, K = sizes.M, sizes.N, sizes.K
    n, m = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, MB)
    share = tl.arange(0, SHARES)[:, None, None] * BK
    k = share + tl.arange(0, BK)[None, None, :]
    at = w + n[None, :, None].to(tl.int64) * K + k
    up = at + N.to(tl.int64) * K
    held, held_up = (), ()
    for step in tl.static_range(STEPS):
        first = step * SHARES * BK
        inside = (n < N)[None, :, None]
        if not EVEN:
            inside = inside & (first + k < K)
        held = held + (tl.load(at + first, mask=inside, other=0.0),)
        if GATED:
            held_up = held_up + (tl.load(up + first, mask=inside, other=0.0),)
    addends = _addends(extras, n, m, N, M, GATED)
    _ordered(FLAGS.pdl)
    k = share + tl.arange(0, BK)[None, :, None]
    source = x + m[None, None, :] * K + k
    sums = tl.zeros([SHARES, BN, MB], tl.float32)
    sums_up = tl.zeros([SHARES, BN, MB], tl.float32)
    squared = tl.zeros([SHARES, BK, MB], tl.float32)
    for step in tl.static_range(STEPS):
        first = step * SHARES * BK
        inside = (m < M)[None, None, :]
        if not EVEN:
            inside = inside & (first + k < K)
        fed = tl.load(source + first, mask=inside, other=0.0)
        sums = tl.dot(held[step], fed, sums, input_precision="ieee")
        if GATED:
            sums_up = tl.dot(held_up[step], fed, sums_up, input_precision="ieee")
        if NORM:
            squared += fed.to(tl.float32) * fed.to(tl.float32)
    y, y_up, squares = tl.sum(sums, 0), tl.sum(sums_up, 0), tl.sum(tl.sum(squared, 1), 0)
    _finished((y, y_up, squares), addends, out, (n, m, N, M), extras.floor2, FLAGS)
