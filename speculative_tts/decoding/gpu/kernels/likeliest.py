"""Kernels of distributions over the likeliest few tokens: top-k with top-p, repetition-aware.

First programs of a part of the vocabulary each choose its likeliest, side by side on the device,
then one program a row those of all. Selection never sorts: bits of the k-th largest number are
found two by two, and the few that are chosen are ranked by comparing each with each.
"""

from typing import no_type_check

import triton
import triton.language as tl

from speculative_tts.decoding.gpu.arguments import LogitRows, PartCandidates
from speculative_tts.decoding.gpu.kernels.logits import exponent, is_early, is_odd, logits_at

LOWEST = tl.constexpr(-(1 << 31))  # a key below all numbers'


@triton.jit
@no_type_check
def keys_of(x):
    """Integers in the order of float32 numbers, -0 below 0; none of a number is LOWEST."""
    bits = x.to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
@no_type_check
def chosen_of(keys, TOP: tl.constexpr):
    """Flags of the TOP largest keys, of equal ones the first, and their places by position."""
    least = tl.full([], LOWEST, tl.int32)
    for pair in range(16):
        one = tl.full([], 1, tl.int32) << (30 - 2 * pair)
        counts = tl.sum(
            (keys >= least + one).to(tl.int64)
            + ((keys >= least + 2 * one).to(tl.int64) << 20)
            + ((keys >= least + 3 * one).to(tl.int64) << 40),
            0,
        )
        several = ((counts & 0xFFFFF) >= TOP).to(tl.int32)
        several += (((counts >> 20) & 0xFFFFF) >= TOP).to(tl.int32)
        several += ((counts >> 40) >= TOP).to(tl.int32)
        least += several * one
    above = keys > least
    level = keys == least
    room = TOP - tl.sum(above.to(tl.int32), 0)
    sums = tl.cumsum(above.to(tl.int32) + (level.to(tl.int32) << 16), 0)
    chosen = above | (level & (sums >> 16 <= room))
    return chosen, (sums & 0xFFFF) + tl.minimum(sums >> 16, room) - 1


@triton.jit
@no_type_check
def rank(keys, values, real):
    """Sum of the values that come before each by its key, and how many there are."""
    place = tl.arange(0, keys.shape[0])
    mine, other = keys[:, None], keys[None, :]
    ahead = (other > mine) | ((other == mine) & (place[None, :] < place[:, None]))
    ahead &= real[None, :]
    return tl.sum(tl.where(ahead, values[None, :], 0.0), 1), tl.sum(ahead.to(tl.int32), 1)


@triton.jit
@no_type_check
def candidates_kernel(
    rows: LogitRows, out, found: PartCandidates,
    TOP: tl.constexpr, FEW: tl.constexpr, TILE: tl.constexpr, BARS: tl.constexpr,
):  # fmt: skip
    """The TOP largest logits of a part of a row, with their ids; the part's probabilities to 0.

    A part has FEW candidates, of TOP ids or fewer. All are NaN if any is NaN or inf. BARS: where
    barred ids are, 0 nowhere, 1 at early positions, 2 everywhere.
    """
    row, part, vocab = tl.program_id(0), tl.program_id(1), rows.vocab
    v = part * TILE + tl.arange(0, TILE)
    inside = v < vocab
    base = row.to(tl.int64) * vocab
    early = (is_early(rows, row) & (BARS == 1)) | (BARS == 2)
    x = logits_at(rows.logits + base, v, inside, early, rows)
    tl.store(out + base + v, tl.zeros([TILE], tl.float32), mask=inside)
    bad = tl.max(is_odd(x), 0) > 0
    x = tl.where(bad, 0.0, x)
    peak = tl.max(tl.where(inside, x, float("-inf")), 0)
    mass = tl.sum(tl.where(inside, exponent(x, peak), 0.0), 0)
    line = row * tl.num_programs(1) + part
    tl.store(found.stats + 2 * line, peak)
    tl.store(found.stats + 2 * line + 1, mass)
    chosen, place = chosen_of(tl.where(inside, keys_of(x), LOWEST), TOP)
    at, j = line * FEW, tl.arange(0, FEW)
    tl.store(found.ids + at + j, tl.full([FEW], -1, tl.int32), mask=j >= TOP)
    tl.store(found.ids + at + place, tl.where(inside, v, -1), mask=chosen)
    tl.store(found.scores + at + place, tl.where(bad, float("nan"), x), mask=chosen)


@triton.jit
@no_type_check
def merge(found: PartCandidates, row, CHOICE: tl.constexpr):
    """Ids and logits [few] of the likeliest of a row's candidates, by id; `top` are real.

    The candidates are overwritten. The last two: which are real, and whether there is a NaN or an
    infinity among the candidates.
    """
    TOP: tl.constexpr = CHOICE.top
    FEW: tl.constexpr = CHOICE.few
    WIDE: tl.constexpr = CHOICE.wide
    width = found.width
    values, ids = found.scores + row * width, found.ids + row * width
    j = tl.arange(0, FEW)
    if WIDE > FEW:
        k = tl.arange(0, WIDE)
        id_ = tl.load(ids + k, mask=k < width, other=-1)
        x = tl.load(values + k, mask=id_ >= 0, other=0.0)
        x = tl.where(tl.max(is_odd(x), 0) > 0, float("nan"), x)
        keys = tl.where(id_ >= 0, keys_of(tl.where(is_odd(x) != 0, 0.0, x)), LOWEST)
        chosen, place = chosen_of(keys, TOP)
        tl.debug_barrier()
        tl.store(ids + place, id_, mask=chosen)
        tl.store(values + place, x, mask=chosen)
        tl.debug_barrier()
    real = j < TOP
    id_ = tl.load(ids + j, mask=real, other=0)
    x = tl.load(values + j, mask=real, other=float("-inf"))
    bad = tl.max(is_odd(x), 0) > 0
    return id_, tl.where(bad, 0.0, x), real, bad


@triton.jit
@no_type_check
def few_kernel(found: PartCandidates, stops, out, vocab, top_p, CHOICE: tl.constexpr):
    """Probabilities of the likeliest of a row's candidates; `out` has zeros elsewhere.

    top_p: None for all of them. With `stops` a stop id that is the likeliest token is certain.
    """
    row = tl.program_id(0)
    id_, x, real, bad = merge(found, row, CHOICE)
    x = tl.where(real, x, float("-inf"))
    peak = tl.max(x, 0)
    p = tl.where(real, exponent(x, peak), 0.0)
    p = p / tl.sum(p, 0)
    ahead, place = rank(keys_of(x), p, real)
    if top_p is not None:
        p = tl.where(ahead < top_p, p, 0.0)
        p = p / tl.sum(p, 0)
    if stops is not None:
        likeliest = tl.sum(tl.where(real & (place == 0), id_, 0), 0)
        if tl.load(stops + likeliest) != 0:
            p = tl.where(place == 0, 1.0, 0.0)
    p = tl.where(bad | (peak == float("-inf")), float("nan"), p)
    tl.store(out + row.to(tl.int64) * vocab + id_, p, mask=real)
