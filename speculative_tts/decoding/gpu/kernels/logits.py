"""Helpers of kernels that read logits, and the kernel of what stands before all distributions."""

from typing import no_type_check

import triton
import triton.language as tl

from speculative_tts.decoding.gpu.arguments import FrameSlots, LogitRows, Penalised


@triton.jit
@no_type_check
def logits_at(source, v, inside, early, rows: LogitRows):
    """Logits at v of one row by temperature, -inf of what is impossible at an early position."""
    x = tl.load(source + v, mask=inside, other=float("-inf"))
    bar = tl.load(rows.barred + v, mask=inside & early, other=0) != 0
    return tl.where(bar, float("-inf"), x) / rows.temperature


@triton.jit
@no_type_check
def is_odd(x):
    """1 where a number is NaN or infinity, else 0."""
    return ((x != x) | (x == float("inf"))).to(tl.int32)  # noqa: PLR0124


@triton.jit
@no_type_check
def is_early(rows: LogitRows, row):
    """True if this row's position is before its utterance's minimum length."""
    return tl.load(rows.positions + row) < tl.load(rows.minimum + row // rows.new)


@triton.jit
@no_type_check
def exponent(x, peak):
    """exp(x - peak), 0 where x is -inf, also if the peak is."""
    return tl.where(x == float("-inf"), 0.0, tl.exp(x - peak))


@triton.jit
@no_type_check
def prepared_kernel(
    rows: LogitRows, said: Penalised, frames: FrameSlots, out,
    IN_FRAME: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """`Sampler.prepared` of a row: a penalty on ids that were there, -inf of other slots' ids.

    Without a penalty, or frames, they are None. Ids that end the speech are possible IN_FRAME, or
    between frames alone.
    """
    row, vocab = tl.program_id(0), rows.vocab
    b, base = (row // rows.new).to(tl.int64), row.to(tl.int64) * vocab
    position = tl.load(rows.positions + row)
    place = tl.arange(0, TILE)
    if said is not None:
        for first in range(0, vocab, TILE):
            v = first + place
            heard = tl.load(said.prompted + b * vocab + v, mask=v < vocab, other=0)
            tl.store(said.seen + base + v, heard, mask=v < vocab)
        tl.debug_barrier()
        for first in range(0, position.to(tl.int32), TILE):
            at = first + place
            past = at < position
            id_ = tl.load(said.history + b * said.capacity + at, mask=past, other=vocab)
            once = tl.full([TILE], 1, tl.uint8)
            tl.store(said.seen + base + id_, once, mask=past & (id_ < vocab))
        tl.debug_barrier()
    begin, end, every, between = 0, 0, 0, True
    if frames is not None:
        slot = (position % frames.slots).to(tl.int32)
        begin = tl.load(frames.slot_ends + tl.maximum(slot - 1, 0))
        begin = tl.where(slot > 0, begin, 0)
        end = tl.load(frames.slot_ends + slot)
        every = tl.load(frames.slot_ends + frames.slots - 1)
        between = (slot == 0) | IN_FRAME
    for first in range(0, vocab, TILE):
        v = first + place
        x = tl.load(rows.logits + base + v, mask=v < vocab, other=0.0)
        if said is not None:
            before = tl.load(said.seen + base + v, mask=v < vocab, other=0) != 0
            x = tl.where(before, tl.where(x < 0, x * said.penalty, x / said.penalty), x)
        if frames is not None:
            fits = ((v >= begin) & (v < end)) | ((v >= every) & between)
            x = tl.where(fits, x, float("-inf"))
        tl.store(out + base + v, x, mask=v < vocab)
