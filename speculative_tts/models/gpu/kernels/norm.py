"""Triton kernels of what stands between products where those are cuBLAS's."""

from typing import no_type_check

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from speculative_tts.models.gpu.arguments import AddedRows, RowNorm


@triton.jit
@no_type_check
def norm_kernel(
    x, added: AddedRows, norm: RowNorm, out, K, KB: tl.constexpr, PDL: tl.constexpr
):  # fmt: skip
    """Write total = x + addend and out = total / sqrt(|total|^2 + floor2) * gain.

    added: None for x itself.
    """
    row = tl.program_id(0).to(tl.int64) * K
    k = tl.arange(0, KB)
    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    y = tl.load(x + row + k, mask=k < K, other=0.0).to(tl.float32)
    if added is not None:
        y += tl.load(added.addend + row + k, mask=k < K, other=0.0).to(tl.float32)
        stored = y.to(added.total.dtype.element_ty)
        tl.store(added.total + row + k, stored, mask=k < K)
        y = stored.to(tl.float32)
    y = y / tl.sqrt(tl.sum(y * y, 0) + norm.floor2)
    if norm.gain is not None:
        y = y * tl.load(norm.gain + k, mask=k < K, other=0.0).to(tl.float32)
    tl.store(out + row + k, y.to(out.dtype.element_ty), mask=k < K)


@triton.jit
@no_type_check
def gate_kernel(wide, out, N, B: tl.constexpr):
    """Write silu(wide[:, :N]) * wide[:, N:]."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * B + tl.arange(0, B)
    gate = tl.load(wide + row * 2 * N + i, mask=i < N, other=0.0).to(tl.float32)
    up = tl.load(wide + row * 2 * N + N + i, mask=i < N, other=0.0).to(tl.float32)
    y = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(out + row * N + i, y.to(out.dtype.element_ty), mask=i < N)


@triton.jit
@no_type_check
def gather_kernel(ids, table, out, K, B: tl.constexpr, PDL: tl.constexpr):
    """Write table[ids[row]] to each row, K of each."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * B + tl.arange(0, B)
    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    x = tl.load(table + tl.load(ids + row).to(tl.int64) * K + i, mask=i < K, other=0.0)
    tl.store(out + row * K + i, x, mask=i < K)


@triton.jit
@no_type_check
def join_kernel(states, inputs, out, K, B: tl.constexpr, PDL: tl.constexpr):
    """Write [states, inputs] of each row, K of each."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * B + tl.arange(0, B)
    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    x = tl.load(states + row * K + i, mask=i < K, other=0.0)
    tl.store(out + row * 2 * K + i, x.to(out.dtype.element_ty), mask=i < K)
    x = tl.load(inputs + row * K + i, mask=i < K, other=0.0)
    tl.store(out + row * 2 * K + K + i, x.to(out.dtype.element_ty), mask=i < K)


@triton.jit
@no_type_check
def spread_kernel(few, places, out, FEW, N, B: tl.constexpr):
    """Write few[row, places[i]] of each i of N, -inf where its place is -1."""
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * B + tl.arange(0, B)
    place = tl.load(places + i, mask=i < N, other=-1)
    x = tl.load(few + row * FEW + place, mask=place >= 0, other=float("-inf"))
    tl.store(out + row * N + i, x, mask=i < N)
