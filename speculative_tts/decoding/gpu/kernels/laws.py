"""Kernels of next-token distributions: softmax, the likeliest few, repetition-aware sampling.

A program computes one row. Selection never sorts: bits of the k-th largest number are found one
after the other, and the few that are chosen are ranked by comparing each with each.
"""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def _keys(x):
    """Integers from 0 to 2^32 in the order of float32 numbers; none of a number is 0."""
    bits = x.to(tl.int32, bitcast=True)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.int64) + 0x80000000


@triton.jit
@no_type_check
def _chosen(keys, TOP: tl.constexpr):
    """Flags of the TOP largest keys, of equal ones the first, and their places in that order."""
    least = tl.zeros([], tl.int64)
    for pair in range(16):
        one = tl.full([], 1, tl.int64) << (30 - 2 * pair)
        counts = tl.sum(
            (keys >= least + one).to(tl.int64)
            + ((keys >= least + 2 * one).to(tl.int64) << 20)
            + ((keys >= least + 3 * one).to(tl.int64) << 40),
            0,
        )
        several = ((counts & 0xFFFFF) >= TOP).to(tl.int64)
        several += (((counts >> 20) & 0xFFFFF) >= TOP).to(tl.int64)
        several += ((counts >> 40) >= TOP).to(tl.int64)
        least += several * one
    above = keys > least
    level = keys == least
    room = TOP - tl.sum(above.to(tl.int32), 0)
    sums = tl.cumsum(above.to(tl.int32) + (level.to(tl.int32) << 16), 0)
    chosen = above | (level & (sums >> 16 <= room))
    return chosen, (sums & 0xFFFF) + tl.minimum(sums >> 16, room) - 1


@triton.jit
@no_type_check
def _before(keys, values, real):
    """Sum of the values that come before each by its key, and how many there are."""
    place = tl.arange(0, keys.shape[0])
    mine, other = keys[:, None], keys[None, :]
    ahead = (other > mine) | ((other == mine) & (place[None, :] < place[:, None]))
    ahead &= real[None, :]
    return tl.sum(tl.where(ahead, values[None, :], 0.0), 1), tl.sum(ahead.to(tl.int32), 1)


@triton.jit
@no_type_check
def _scaled(source, v, inside, barred, early, temperature):
    """Logits at v of one row by temperature, -inf of what is impossible at an early position."""
    x = tl.load(source + v, mask=inside, other=float("-inf"))
    bar = tl.load(barred + v, mask=inside & early, other=0) != 0
    return tl.where(bar, float("-inf"), x) / temperature


@triton.jit
@no_type_check
def _odd(x):
    """1 where a number is NaN or infinity, else 0."""
    return ((x != x) | (x == float("inf"))).to(tl.int32)  # noqa: PLR0124


@triton.jit
@no_type_check
def _is_early(positions, minimum, row, new):
    """True if this row's position is before its utterance's minimum length."""
    return tl.load(positions + row) < tl.load(minimum + row // new)


@triton.jit
@no_type_check
def softmax_kernel(
    logits, positions, minimum, barred, stops, out, vocab, new, temperature,
    ENDS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Softmax of a row; with ENDS the certain stop id where that is the likeliest token."""
    row = tl.program_id(0)
    source, target = logits + row.to(tl.int64) * vocab, out + row.to(tl.int64) * vocab
    early = _is_early(positions, minimum, row, new)
    place = tl.arange(0, TILE)
    peaks = tl.full([TILE], float("-inf"), tl.float32)
    sums = tl.zeros([TILE], tl.float32)
    best = tl.zeros([TILE], tl.int32)
    odd = tl.zeros([TILE], tl.int32)
    for first in range(0, vocab, TILE):
        v = first + place
        x = _scaled(source, v, v < vocab, barred, early, temperature)
        odd |= _odd(x)
        best = tl.where(x > peaks, v, best)
        higher = tl.where(x > peaks, x, peaks)
        sums = sums * _shrunk(peaks, higher) + _shrunk(x, higher)
        peaks = higher
    peak = tl.max(peaks, 0)
    total = tl.sum(sums * _shrunk(peaks, tl.full([TILE], 0.0, tl.float32) + peak), 0)
    lawless = (tl.max(odd, 0) > 0) | (peak == float("-inf"))
    likeliest = tl.min(tl.where(peaks == peak, best, vocab), 0)
    sure = False
    if ENDS:
        sure = tl.load(stops + tl.minimum(likeliest, vocab - 1)) != 0
    for first in range(0, vocab, TILE):
        v = first + place
        x = _scaled(source, v, v < vocab, barred, early, temperature)
        p = tl.exp(x - peak) / total
        if ENDS:
            p = tl.where(sure, (v == likeliest).to(tl.float32), p)
        tl.store(target + v, tl.where(lawless, float("nan"), p), mask=v < vocab)


@triton.jit
@no_type_check
def _shrunk(x, peak):
    """exp(x - peak), 0 where x is -inf, also if the peak is."""
    return tl.where(x == float("-inf"), 0.0, tl.exp(x - peak))


@triton.jit
@no_type_check
def nucleus_kernel(
    logits, positions, minimum, barred, stops, out, vocab, new, temperature, top_p,
    ENDS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """The likeliest tokens of a row with vocab <= TILE before which there is less than top_p.

    The least probability among them is the largest that top_p is reached with.
    """
    row = tl.program_id(0)
    v = tl.arange(0, TILE)
    inside = v < vocab
    base = row.to(tl.int64) * vocab
    early = _is_early(positions, minimum, row, new)
    x = _scaled(logits + base, v, inside, barred, early, temperature)
    peak = tl.max(x, 0)
    lawless = (tl.max(_odd(x), 0) > 0) | (peak == float("-inf"))
    e = tl.where(inside, _shrunk(x, peak), 0.0)
    p = e / tl.sum(e, 0)
    bits = p.to(tl.int32, bitcast=True)
    least = tl.zeros([], tl.int32)
    for bit in range(30):
        one = tl.full([], 1, tl.int32) << (29 - bit)
        mass = tl.sum(tl.where(bits >= least + one, p, 0.0), 0)
        least += (mass >= top_p).to(tl.int32) * one
    level = (bits == least) & inside
    before = tl.sum(tl.where(bits > least, p, 0.0), 0)
    before += (tl.cumsum(level.to(tl.int32), 0) - 1).to(tl.float32) * tl.max(
        tl.where(level, p, 0.0), 0
    )
    p = tl.where((bits > least) | (level & (before < top_p)), p, 0.0)
    p = p / tl.sum(p, 0)
    if ENDS:
        likeliest = tl.min(tl.where(x == peak, v, TILE), 0)
        sure = tl.load(stops + tl.minimum(likeliest, vocab - 1)) != 0
        p = tl.where(sure, tl.where(v == likeliest, 1.0, 0.0), p)
    tl.store(out + base + v, tl.where(lawless, float("nan"), p), mask=inside)


@triton.jit
@no_type_check
def candidates_kernel(
    logits, positions, minimum, barred, out, values, ids, vocab, new, temperature,
    TOP: tl.constexpr, FEW: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """The TOP largest logits of a part of a row, with their ids; the part's probabilities to 0.

    values, ids: [rows, parts, FEW]; id -1 where there are fewer. All are NaN if any is NaN or inf.
    """
    row, part = tl.program_id(0), tl.program_id(1)
    v = part * TILE + tl.arange(0, TILE)
    inside = v < vocab
    base = row.to(tl.int64) * vocab
    early = _is_early(positions, minimum, row, new)
    x = _scaled(logits + base, v, inside, barred, early, temperature)
    tl.store(out + base + v, tl.zeros([TILE], tl.float32), mask=inside)
    odd = tl.max(_odd(x), 0) > 0
    x = tl.where(odd, 0.0, x)
    chosen, place = _chosen(tl.where(inside, _keys(x), 0), TOP)
    at = (row * tl.num_programs(1) + part) * FEW
    j = tl.arange(0, FEW)
    tl.store(ids + at + j, tl.full([FEW], -1, tl.int32), mask=j >= TOP)
    tl.store(ids + at + place, tl.where(inside, v, -1), mask=chosen)
    tl.store(values + at + place, tl.where(odd, float("nan"), x), mask=chosen)


@triton.jit
@no_type_check
def few_kernel(
    values, ids, stops, out, vocab, width, top_p,
    TOP: tl.constexpr, FEW: tl.constexpr, WIDE: tl.constexpr,
    NUCLEUS: tl.constexpr, ENDS: tl.constexpr,
):  # fmt: skip
    """Probabilities of the TOP likeliest of a row's candidates; `out` has zeros elsewhere.

    values, ids: [rows, width], what `candidates_kernel` left; they are overwritten.
    """
    row = tl.program_id(0)
    values, ids = values + row * width, ids + row * width
    j = tl.arange(0, FEW)
    if WIDE > FEW:
        k = tl.arange(0, WIDE)
        id_ = tl.load(ids + k, mask=k < width, other=-1)
        x = tl.load(values + k, mask=id_ >= 0, other=0.0)
        x = tl.where(tl.max(_odd(x), 0) > 0, float("nan"), x)
        chosen, place = _chosen(tl.where(id_ >= 0, _keys(tl.where(_odd(x) != 0, 0.0, x)), 0), TOP)
        tl.debug_barrier()
        tl.store(ids + place, id_, mask=chosen)
        tl.store(values + place, x, mask=chosen)
        tl.debug_barrier()
    real = j < TOP
    id_ = tl.load(ids + j, mask=real, other=0)
    x = tl.load(values + j, mask=real, other=float("-inf"))
    odd = tl.max(_odd(x), 0) > 0
    x = tl.where(odd, 0.0, x)
    peak = tl.max(x, 0)
    p = tl.where(real, _shrunk(x, peak), 0.0)
    p = p / tl.sum(p, 0)
    before, place = _before(_keys(x), p, real)
    if NUCLEUS:
        p = tl.where(before < top_p, p, 0.0)
        p = p / tl.sum(p, 0)
    if ENDS:
        likeliest = tl.sum(tl.where(real & (place == 0), id_, 0), 0)
        if tl.load(stops + likeliest) != 0:
            p = tl.where(place == 0, 1.0, 0.0)
    p = tl.where(odd | (peak == float("-inf")), float("nan"), p)
    tl.store(out + row.to(tl.int64) * vocab + id_, p, mask=real)


@triton.jit
@no_type_check
def repetition_aware_kernel(
    logits, positions, minimum, barred, history, out, masses, ids, vocab, new, capacity,
    temperature, top_p, often,
    TOP: tl.constexpr, FEW: tl.constexpr, TILE: tl.constexpr,
    WINDOW: tl.constexpr, PLACES: tl.constexpr,
):  # fmt: skip
    """The distribution of `sampling.repetition_aware` as it is now, of a row with vocab <= TILE.

    masses, ids: [rows, FEW] of scratch memory.
    """
    row = tl.program_id(0)
    v = tl.arange(0, TILE)
    inside = v < vocab
    base = row.to(tl.int64) * vocab
    early = _is_early(positions, minimum, row, new)
    x = _scaled(logits + base, v, inside, barred, early, temperature)
    peak = tl.max(x, 0)
    odd = (tl.max(_odd(x), 0) > 0) | (peak == float("-inf"))
    x, peak = tl.where(odd, 0.0, x), tl.where(odd, 0.0, peak)  # ids stay in bounds all the same
    e = tl.where(inside, tl.exp(x - peak), 0.0)
    p = e / tl.sum(e, 0)
    chosen, place = _chosen(tl.where(inside, _keys(p), 0), TOP)
    tl.store(ids + row * FEW + place, v, mask=chosen)
    tl.store(masses + row * FEW + place, p, mask=chosen)
    tl.debug_barrier()
    j = tl.arange(0, FEW)
    real = j < TOP
    id_ = tl.load(ids + row * FEW + j, mask=real, other=0)
    mass = tl.load(masses + row * FEW + j, mask=real, other=0.0)
    before, place = _before(_keys(mass), mass, real)
    nucleus = tl.where(real & (before < top_p), mass, 0.0)
    nucleus = nucleus / tl.sum(nucleus, 0)
    repeated = tl.where(
        _repeats(id_, history + (row // new).to(tl.int64) * capacity, tl.load(positions + row),
                 often, WINDOW, PLACES), nucleus, 0.0)  # fmt: skip
    first = real & (place == 0)
    best = tl.sum(tl.where(first, id_, 0), 0)
    lead = tl.sum(tl.where(first, repeated, 0.0), 0)
    # Drawn again without the likeliest token: a softmax of its own, as 1 - p may round to 0.
    rest = tl.where((v == best) | (v >= vocab), float("-inf"), x)
    second = tl.max(rest, 0)
    alone = second == float("-inf")
    left = tl.where(rest == float("-inf"), 0.0, tl.exp(rest - tl.where(alone, 0.0, second)))
    total = tl.sum(left, 0)
    others = tl.where(alone, p, left / total)
    share = tl.where(real & (place > 0), repeated / (1.0 - mass), 0.0)
    shares = tl.sum(share, 0)
    tl.store(out + base + v, tl.where(odd, float("nan"), lead * others + p * shares), mask=inside)
    own = _scaled(logits + base, id_, real, barred, early, temperature)
    own = tl.where(odd, 0.0, own)
    other = tl.where(alone, mass, tl.where(first, 0.0, tl.exp(own - second) / total))
    law = nucleus - repeated + lead * other + tl.maximum(mass * shares - mass * share, 0.0)
    tl.debug_barrier()
    tl.store(out + base + id_, tl.where(odd, float("nan"), law), mask=real)


@triton.jit
@no_type_check
def _repeats(ids, history, position, often, WINDOW: tl.constexpr, PLACES: tl.constexpr):
    """True for each id that occurs too often in the window before a position."""
    back = tl.arange(0, PLACES)
    place = position - WINDOW + back
    there = (back < WINDOW) & (place >= 0)
    recent = tl.load(history + place, mask=there, other=-1)
    same = (ids[:, None] == recent[None, :]) & there[None, :]
    return tl.sum(same.to(tl.int32), 1).to(tl.float32) >= often
