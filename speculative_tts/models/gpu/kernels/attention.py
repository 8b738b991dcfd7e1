"""Triton kernels of attention: one for a step, and RoPE alone for prefill.

A step's kernel norms (where a model does) and turns queries and keys, writes the cache's new
entries, and computes softmax(q k') v over the cache in parts, which the last to finish joins.
"""

from typing import no_type_check

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from speculative_tts.models.gpu.arguments import (
    AttentionParts,
    NewPositions,
    PastPositions,
    Turning,
)

NOTHING = tl.constexpr(-1e30)  # a score that no softmax sees; -inf would make NaN of an empty part


@triton.jit
@no_type_check
def _turned(
    x, gain, floor2, angle, ROWS: tl.constexpr, HALF: tl.constexpr, NORM: tl.constexpr
):  # fmt: skip
    """Turn neighbouring pairs of x [ROWS, 2 HALF] by (cos, sin) pairs of `angle`, in float32.

    Before that each row is divided by sqrt(|row|^2 + floor2) and multiplied by its gain (NORM).
    """
    x = x.to(tl.float32)
    if NORM:
        x = x / tl.sqrt(tl.sum(x * x, 1) + floor2)[:, None] * gain
    re, im = tl.split(tl.reshape(x, [ROWS, HALF, 2]))
    cos, sin = tl.split(tl.reshape(angle, [ROWS, HALF, 2]))
    return tl.interleave(re * cos - im * sin, re * sin + im * cos)


@triton.jit
@no_type_check
def _softmaxed(scores, seen, values, peak, total, sums):
    """Add columns to a running softmax: its highest score, its sum, and the weighted values."""
    scores = tl.where(seen, scores, NOTHING)
    higher = tl.maximum(peak, tl.max(scores, 1))
    weight = tl.where(seen, tl.exp(scores - higher[:, None]), 0.0)
    shrink = tl.exp(peak - higher)
    sums = tl.dot(weight.to(values.dtype), values, sums * shrink[:, None], input_precision="ieee")
    return higher, total * shrink + tl.sum(weight, 1), sums


@triton.jit
@no_type_check
def _joined(shared: AttentionParts, out, row_head, real, stride, SHAPE: tl.constexpr):
    """Join the parts of one pair's queries, each normalised, by their log sums."""
    D: tl.constexpr = SHAPE.d
    DB: tl.constexpr = SHAPE.db
    QB: tl.constexpr = SHAPE.qb
    PARTS: tl.constexpr = SHAPE.splits + 1
    d = tl.arange(0, DB)
    inside = real[:, None] & (d < D)[None, :]
    peak = tl.full([QB], NOTHING, tl.float32)
    total = tl.zeros([QB], tl.float32)
    sums = tl.zeros([QB, DB], tl.float32)
    for part in tl.static_range(PARTS):
        line = part * stride + row_head
        at = shared.parts + line[:, None] * D + d[None, :]
        value = tl.load(at, mask=inside, other=0.0, cache_modifier=".cg")
        level = tl.load(shared.peaks + line, mask=real, other=0.0, cache_modifier=".cg")
        higher = tl.maximum(peak, level)
        shrink, weight = tl.exp(peak - higher), tl.exp(level - higher)
        sums = sums * shrink[:, None] + value * weight[:, None]
        total = total * shrink + weight
        peak = higher
    at = out + row_head[:, None] * D + d[None, :]
    tl.store(at, (sums / total[:, None]).to(out.dtype.element_ty), mask=inside)


@triton.jit
@no_type_check
def _newest(
    q, new, fed: NewPositions, past: PastPositions, turning: Turning, place, SHAPE: tl.constexpr
):  # fmt: skip
    """Store the new keys and values of one pair and attend to them: a running softmax."""
    HEADS: tl.constexpr = SHAPE.heads
    KV: tl.constexpr = SHAPE.kv
    D: tl.constexpr = SHAPE.d
    DB: tl.constexpr = SHAPE.db
    QB: tl.constexpr = SHAPE.qb
    NB: tl.constexpr = SHAPE.nb
    NORM: tl.constexpr = turning.gains is not None
    NEW = fed.number
    first_row, begin, base, kv = place
    j, d = tl.arange(0, NB), tl.arange(0, DB)
    mine = (j < NEW)[:, None] & (d < D)[None, :]
    at = (first_row + j) * (HEADS + 2 * KV) * D + (HEADS + kv) * D
    at = fed.fused + at[:, None] + d[None, :]
    turn = tl.load(turning.turns + ((begin + j) * D)[:, None] + d[None, :], mask=mine, other=0.0)
    gain = turn
    if NORM:
        gain = tl.load(turning.gains + (HEADS + kv) * D + d, mask=d < D, other=0.0)[None, :]
    new_keys = tl.load(at, mask=mine, other=0.0)
    k = _turned(new_keys, gain, turning.floor2, turn, NB, DB // 2, NORM)
    k = k.to(past.past_keys.dtype.element_ty)
    v = tl.load(at + KV * D, mask=mine, other=0.0)
    to = base + ((begin + j) * D)[:, None] + d[None, :]
    tl.store(past.past_keys + to, k, mask=mine)
    tl.store(past.past_values + to, v, mask=mine)
    seen = (j < NEW)[None, :] & (j[None, :] <= new[:, None])
    scores = tl.dot(q, tl.trans(k), input_precision="ieee")
    peak = tl.full([QB], NOTHING, tl.float32)
    nothing = tl.zeros([QB, DB], tl.float32)
    return _softmaxed(scores, seen, v, peak, tl.zeros([QB], tl.float32), nothing)


@triton.jit
@no_type_check
def _handed_in(shared: AttentionParts, out, place, running, M, SHAPE: tl.constexpr):
    """Write one part of a pair; the last part joins all."""
    HEADS: tl.constexpr = SHAPE.heads
    D: tl.constexpr = SHAPE.d
    DB: tl.constexpr = SHAPE.db
    pair, part, row_head, real = place
    peak, total, sums = running
    d = tl.arange(0, DB)
    inside = real[:, None] & (d < D)[None, :]
    level = tl.where(total > 0, peak + tl.log(tl.where(total > 0, total, 1.0)), NOTHING)
    at = (part * M * HEADS + row_head)[:, None] * D + d[None, :]
    tl.store(shared.parts + at, sums, mask=inside)
    tl.store(shared.peaks + part * M * HEADS + row_head, level, mask=real)
    tl.debug_barrier()  # all of this program's, before its ticket says that they are there
    if tl.atomic_add(shared.tickets + pair, 1, sem="acq_rel") == SHAPE.splits:
        tl.atomic_xchg(shared.tickets + pair, 0, sem="relaxed")
        _joined(shared, out, row_head, real, M * HEADS, SHAPE)


@triton.jit
@no_type_check
def _columns(past: PastPositions, base, column, last, SHAPE: tl.constexpr):
    """Load keys [DB, columns] and values [columns, DB] of a pair; say which are before `last`."""
    D: tl.constexpr = SHAPE.d
    DB: tl.constexpr = SHAPE.db
    d = tl.arange(0, DB)
    there = column < last
    at = base + column[None, :] * D + d[:, None]
    k = tl.load(past.past_keys + at, mask=there[None, :] & (d < D)[:, None], other=0.0)
    at = base + column[:, None] * D + d[None, :]
    v = tl.load(past.past_values + at, mask=there[:, None] & (d < D)[None, :], other=0.0)
    return there, k, v


@triton.jit
@no_type_check
def _oldest(q, past: PastPositions, place, loaded, running, SHAPE: tl.constexpr):
    """Attend to old columns from `first`, of which KB are loaded; normalise the weighted values."""
    KB: tl.constexpr = SHAPE.kb
    base, column, first, last = place
    there, k, v = loaded
    peak, total, sums = running
    for _ in range(first, last, KB):
        column += KB
        next_there, next_k, next_v = _columns(past, base, column, last, SHAPE)
        scores = tl.dot(q, k, input_precision="ieee")
        peak, total, sums = _softmaxed(scores, there[None, :], v, peak, total, sums)
        there, k, v = next_there, next_k, next_v
    return peak, total, sums / tl.where(total > 0, total, 1.0)[:, None]


@triton.jit
@no_type_check
def attention_kernel(
    fed: NewPositions, past: PastPositions, turning: Turning, out, shared: AttentionParts,
    SHAPE: tl.constexpr,
):  # fmt: skip
    """Attend from new positions of each row to its cache and to themselves: out [rows, HEADS D].

    A row's kv head has SPLITS programs over old positions, which were written long before and are
    read before the wait, and one over the new; SPLITS = 0: one for all. The last to end joins their
    parts. SHAPE: AttentionConstants.
    """
    HEADS: tl.constexpr = SHAPE.heads
    KV: tl.constexpr = SHAPE.kv
    D: tl.constexpr = SHAPE.d
    DB: tl.constexpr = SHAPE.db
    QB: tl.constexpr = SHAPE.qb
    KB: tl.constexpr = SHAPE.kb
    SPLITS: tl.constexpr = SHAPE.splits
    NORM: tl.constexpr = turning.gains is not None
    NEW = fed.number
    pair, part = tl.program_id(0) // (SPLITS + 1), tl.program_id(0) % (SPLITS + 1)
    batch, kv = pair // KV, pair % KV
    begin = tl.load(fed.start + batch).to(tl.int32)
    first, last = 0, begin
    if SPLITS > 0:
        span = tl.cdiv(tl.cdiv(begin, SPLITS), KB) * KB
        first, last = tl.minimum(part * span, begin), tl.minimum((part + 1) * span, begin)
    base = pair.to(tl.int64) * past.capacity * D
    column = first + tl.arange(0, KB)
    loaded = _columns(past, base, column, last, SHAPE)
    r, d = tl.arange(0, QB), tl.arange(0, DB)
    new = r // (HEADS // KV)
    real = new < NEW
    row, head = batch * NEW + new, kv * (HEADS // KV) + r % (HEADS // KV)
    inside = real[:, None] & (d < D)[None, :]
    at = turning.turns + ((begin + new) * D)[:, None] + d[None, :]
    angle = tl.load(at, mask=inside, other=0.0)
    gain = angle
    if NORM:
        gain = tl.load(turning.gains + (head * D)[:, None] + d[None, :], mask=inside, other=0.0)
    if SHAPE.pdl:
        gdc_wait()
        gdc_launch_dependents()
    at = fed.fused + (row * (HEADS + 2 * KV) * D + head * D)[:, None] + d[None, :]
    q = tl.load(at, mask=inside, other=0.0)
    q = _turned(q, gain, turning.floor2, angle, QB, DB // 2, NORM)
    q = q.to(past.past_keys.dtype.element_ty)
    peak, total = tl.full([QB], NOTHING, tl.float32), tl.zeros([QB], tl.float32)
    sums = tl.zeros([QB, DB], tl.float32)
    if part == SPLITS:
        place = batch * NEW, begin, base, kv
        peak, total, sums = _newest(q, new, fed, past, turning, place, SHAPE)
    place = base, column, first, last
    peak, total, sums = _oldest(q, past, place, loaded, (peak, total, sums), SHAPE)
    row_head = row * HEADS + head
    if SPLITS == 0:
        at = out + row_head[:, None] * D + d[None, :]
        tl.store(at, sums.to(out.dtype.element_ty), mask=inside)
    else:
        _handed_in(shared, out, (pair, part, row_head, real), (peak, total, sums), fed.rows, SHAPE)


@triton.jit
@no_type_check
def rotate_kernel(
    fused, past: PastPositions, turning: Turning, rows, NEW, SHAPE: tl.constexpr, HB: tl.constexpr
):  # fmt: skip
    """Norm and turn queries and keys of a prefill in place, write keys and values to the cache.

    A program has one position; fused: [batch, NEW, (HEADS + 2 KV) D], cache as in
    `attention_kernel`, of which `rows` [batch] are filled from position 0. SHAPE: HeadConstants.
    """
    HEADS: tl.constexpr = SHAPE.heads
    KV: tl.constexpr = SHAPE.kv
    D: tl.constexpr = SHAPE.d
    DB: tl.constexpr = SHAPE.db
    NORM: tl.constexpr = turning.gains is not None
    line = tl.program_id(0)
    row, place = tl.load(rows + line // NEW), line % NEW
    head, d = tl.arange(0, HB), tl.arange(0, DB)
    d_in = (d < D)[None, :]
    at = fused + line.to(tl.int64) * (HEADS + 2 * KV) * D + (head * D)[:, None] + d[None, :]
    inside = (head < HEADS + KV)[:, None] & d_in
    turn = tl.load(turning.turns + place * D + d, mask=d < D, other=0.0)
    turn = tl.broadcast_to(turn[None, :], [HB, DB])
    gain = turn
    if NORM:
        gain = tl.load(turning.gains + (head * D)[:, None] + d[None, :], mask=inside, other=0.0)
    x = tl.load(at, mask=inside, other=0.0)
    x = _turned(x, gain, turning.floor2, turn, HB, DB // 2, NORM)
    x = x.to(fused.dtype.element_ty)
    tl.store(at, x, mask=inside)
    kv = head - HEADS
    to = ((row * KV + kv) * past.capacity + place)[:, None] * D + d[None, :]
    tl.store(past.past_keys + to, x, mask=inside & (kv >= 0)[:, None])
    stored = (kv >= KV) & (kv < 2 * KV)
    v = tl.load(at, mask=stored[:, None] & d_in, other=0.0)
    tl.store(past.past_values + to - KV * past.capacity * D, v, mask=stored[:, None] & d_in)
