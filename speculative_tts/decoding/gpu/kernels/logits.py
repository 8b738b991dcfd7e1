"""Helpers of kernels that read logits, and the kernel of what stands before all distributions."""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def logits_at(source, v, inside, barred, early, temperature):
    """Logits at v of one row by temperature, -inf of what is impossible at an early position."""
    x = tl.load(source + v, mask=inside, other=float("-inf"))
    bar = tl.load(barred + v, mask=inside & early, other=0) != 0
    return tl.where(bar, float("-inf"), x) / temperature


@triton.jit
@no_type_check
def is_odd(x):
    """1 where a number is NaN or infinity, else 0."""
    return ((x != x) | (x == float("inf"))).to(tl.int32)  # noqa: PLR0124


@triton.jit
@no_type_check
def is_early(positions, minimum, row, new):
    """True if this row's position is before its utterance's minimum length."""
    return tl.load(positions + row) < tl.load(minimum + row // new)


@triton.jit
@no_type_check
def exponent(x, peak):
    """exp(x - peak), 0 where x is -inf, also if the peak is."""
    return tl.where(x == float("-inf"), 0.0, tl.exp(x - peak))


@triton.jit
@no_type_check
def prepared_kernel(
    logits, positions, history, prompted, slot_ends, seen, out, vocab, new, capacity, slots,
    penalty,
    PENALTY: tl.constexpr, FRAMES: tl.constexpr, IN_FRAME: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """`Sampler.prepared` of a row: a penalty on ids that were there, -inf of other slots' ids.

    seen: uint8 [rows, vocab] of scratch memory. slot_ends: the first id after the range of each of
    a frame's positions; ids after all of them end the speech, IN_FRAME or between frames alone.
    """
    row = tl.program_id(0)
    b, base = (row // new).to(tl.int64), row.to(tl.int64) * vocab
    position = tl.load(positions + row)
    place = tl.arange(0, TILE)
    if PENALTY:
        for first in range(0, vocab, TILE):
            v = first + place
            said = tl.load(prompted + b * vocab + v, mask=v < vocab, other=0)
            tl.store(seen + base + v, said, mask=v < vocab)
        tl.debug_barrier()
        for first in range(0, position.to(tl.int32), TILE):
            at = first + place
            past = at < position
            id_ = tl.load(history + b * capacity + at, mask=past, other=vocab)
            once = tl.full([TILE], 1, tl.uint8)
            tl.store(seen + base + id_, once, mask=past & (id_ < vocab))
        tl.debug_barrier()
    begin, end, every, between = 0, 0, 0, True
    if FRAMES:
        slot = (position % slots).to(tl.int32)
        begin = tl.load(slot_ends + tl.maximum(slot - 1, 0))
        begin = tl.where(slot > 0, begin, 0)
        end, every = tl.load(slot_ends + slot), tl.load(slot_ends + slots - 1)
        between = (slot == 0) | IN_FRAME
    for first in range(0, vocab, TILE):
        v = first + place
        x = tl.load(logits + base + v, mask=v < vocab, other=0.0)
        if PENALTY:
            before = tl.load(seen + base + v, mask=v < vocab, other=0) != 0
            x = tl.where(before, tl.where(x < 0, x * penalty, x / penalty), x)
        if FRAMES:
            fits = ((v >= begin) & (v < end)) | ((v >= every) & between)
            x = tl.where(fits, x, float("-inf"))
        tl.store(out + base + v, x, mask=v < vocab)
