"""Triton kernels of products with few rows, with what precedes and follows a product fused in.

Both compute, for each row m and output n,

    y = sum_k x[m, k] w[n, k]      [N, K] weights, one output's inputs side by side
    y = y / sqrt(|x[m]|^2 + floor2)      NORM: RMSNorm, whose gain and factor the weight carries
    y = y + bias[n]                      BIAS
    y = silu(y) * y_up                   GATED: w has 2 N rows, those of `up` behind those of `gate`
    y = y + addend[m, n]                 ADD

PDL: a block asks for its weights, which nobody writes, before it waits for the kernel before it. It
lets the next kernel start only after that wait, so all that earlier kernels wrote is there.
"""

from typing import no_type_check

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
@no_type_check
def gemv_kernel(
    x, w, bias, addend, out, N, K, floor2,
    M: tl.constexpr, BN: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr,
    NORM: tl.constexpr, BIAS: tl.constexpr, ADD: tl.constexpr, GATED: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """Compute BN outputs of all M rows in a block that holds all their weights in registers.

    B1 + B2 >= K, both powers of two. The sums of a row do not depend on M.
    """
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
    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    for m in tl.static_range(M):
        x1 = tl.load(x + m * K + k1, mask=k1 < K, other=0.0).to(tl.float32)
        y = tl.sum(w1.to(tl.float32) * x1[None, :], 1)
        if B2:
            x2 = tl.load(x + m * K + k2, mask=k2 < K, other=0.0).to(tl.float32)
            y += tl.sum(w2.to(tl.float32) * x2[None, :], 1)
        if GATED:
            y_up = tl.sum(u1.to(tl.float32) * x1[None, :], 1)
            if B2:
                y_up += tl.sum(u2.to(tl.float32) * x2[None, :], 1)
        if NORM:
            squares = tl.sum(x1 * x1, 0)
            if B2:
                squares += tl.sum(x2 * x2, 0)
            scale = 1.0 / tl.sqrt(squares + floor2)
            y = y * scale
            if GATED:
                y_up = y_up * scale
        if BIAS:
            y += tl.load(bias + n, mask=n < N, other=0.0).to(tl.float32)
        if GATED:
            if BIAS:
                y_up += tl.load(bias + N + n, mask=n < N, other=0.0).to(tl.float32)
            y = y / (1.0 + tl.exp(-y)) * y_up
        if ADD:
            y += tl.load(addend + m * N + n, mask=n < N, other=0.0).to(tl.float32)
        tl.store(out + m * N + n, y.to(out.dtype.element_ty), mask=n < N)


@triton.jit
@no_type_check
def rows_kernel(
    x, w, bias, addend, out, M, N, K, floor2,
    BN: tl.constexpr, BK: tl.constexpr, MB: tl.constexpr, EVEN: tl.constexpr,
    NORM: tl.constexpr, BIAS: tl.constexpr, ADD: tl.constexpr, GATED: tl.constexpr,
    PDL: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Compute BN outputs of up to MB rows on matrix units, the weights in tiles of BK inputs.

    EVEN: BK divides K. A row's sums do not depend on the others; |x|^2 is the diagonal of x x'.
    """
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
    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    for k0 in tl.range(0, K, BK, num_stages=STAGES):
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
    if NORM:
        squares = tl.sum(tl.where(m[:, None] == m[None, :], gram, 0.0), 0)
        scale = 1.0 / tl.sqrt(squares + floor2)
        y = y * scale[None, :]
        y_up = y_up * scale[None, :]
    if BIAS:
        y += tl.load(bias + n, mask=n < N, other=0.0).to(tl.float32)[:, None]
    if GATED:
        if BIAS:
            y_up += tl.load(bias + N + n, mask=n < N, other=0.0).to(tl.float32)[:, None]
        y = y / (1.0 + tl.exp(-y)) * y_up
    place = m[None, :] * N + n[:, None]
    inside = n_in & m_in
    if ADD:
        y += tl.load(addend + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + place, y.to(out.dtype.element_ty), mask=inside)
