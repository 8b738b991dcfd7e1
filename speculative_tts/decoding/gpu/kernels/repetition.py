"""Kernel of repetition-aware sampling, from the candidates of `likeliest.candidates_kernel`."""

from typing import no_type_check

import triton
import triton.language as tl

from speculative_tts.decoding.gpu.arguments import LogitRows, PartCandidates, Repetitions
from speculative_tts.decoding.gpu.kernels.likeliest import keys_of, merge, rank
from speculative_tts.decoding.gpu.kernels.logits import exponent, is_early, logits_at


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


@triton.jit
@no_type_check
def _whole(stats, parts, PARTS: tl.constexpr):
    """Highest logit of a row and its sum of exponents, from those of its parts."""
    part = tl.arange(0, PARTS)
    peaks = tl.load(stats + 2 * part, mask=part < parts, other=float("-inf"))
    sums = tl.load(stats + 2 * part + 1, mask=part < parts, other=0.0)
    peak = tl.max(peaks, 0)
    return peak, tl.sum(sums * exponent(peaks, peak), 0)


@triton.jit
@no_type_check
def _others(source, best, early, rows: LogitRows, TILE: tl.constexpr):
    """Highest logit but that of `best`, and the sum of exponents: a softmax of its own.

    The sum of all less one of them may round to 0.
    """
    vocab = rows.vocab
    peaks = tl.full([TILE], float("-inf"), tl.float32)
    sums = tl.zeros([TILE], tl.float32)
    for first in range(0, vocab, TILE):
        v = first + tl.arange(0, TILE)
        x = logits_at(source, v, v < vocab, early, rows)
        x = tl.where(v == best, float("-inf"), x)
        higher = tl.maximum(x, peaks)
        sums = sums * exponent(peaks, higher) + exponent(x, higher)
        peaks = higher
    second = tl.max(peaks, 0)
    return second, tl.sum(sums * exponent(peaks, tl.zeros([TILE], tl.float32) + second), 0)


@triton.jit
@no_type_check
def repetition_aware_kernel(
    rows: LogitRows, found: PartCandidates, said: Repetitions, out,
    CHOICE: tl.constexpr, WINDOW: tl.constexpr,
):  # fmt: skip
    """The distribution of `sampling.repetition_aware` of a row; `out` has zeros so far.

    All of the vocabulary is read again only where a token is drawn again. WINDOW.again: as it is
    now, without the repeated token, and barred ids barred before anything else (they had -inf when
    the candidates were found); else from all tokens, and until none is barred.
    """
    FEW: tl.constexpr = CHOICE.few
    TILE: tl.constexpr = WINDOW.tile
    row, vocab = tl.program_id(0), rows.vocab
    base = row.to(tl.int64) * vocab
    id_, x, real, bad = merge(found, row, CHOICE)
    peak, total = _whole(found.stats + row * 2 * found.parts, found.parts, WINDOW.parts)
    bad |= peak == float("-inf")
    mass = tl.where(real & (bad == 0), exponent(x, peak) / total, 0.0)
    ahead, place = rank(keys_of(mass), mass, real)
    nucleus = tl.where(real & (ahead < said.top_p), mass, 0.0)
    nucleus = nucleus / tl.sum(nucleus, 0)
    position = tl.load(rows.positions + row)
    history = said.history + (row // rows.new).to(tl.int64) * said.capacity
    repeats = _repeats(id_, history, position, said.often, WINDOW.window, WINDOW.places)
    repeated = tl.where(repeats, nucleus, 0.0)
    early = is_early(rows, row)
    law = nucleus - repeated
    whole = rows.logits + base, out + base, early, peak, total
    few = id_, real, place, mass
    if WINDOW.again:
        if tl.max(repeated, 0) > 0:
            law += _again(rows, whole, few, repeated, TILE)
    else:
        law = _conditioned(rows, whole, few, law, tl.sum(repeated, 0), TILE)
    if bad:
        for first in range(0, vocab, TILE):
            v = first + tl.arange(0, TILE)
            tl.store(out + base + v, tl.full([TILE], float("nan"), tl.float32), mask=v < vocab)
        law = tl.full([FEW], float("nan"), tl.float32)
    tl.debug_barrier()
    tl.store(out + base + id_, law, mask=real)


@triton.jit
@no_type_check
def _again(rows: LogitRows, whole, few, repeated, TILE: tl.constexpr):
    """Write what a second draw without the repeated token gives to all; return the candidates'."""
    source, target, early, peak, total = whole
    id_, real, place, mass = few
    vocab = rows.vocab
    first = real & (place == 0)
    best = tl.sum(tl.where(first, id_, 0), 0)
    lead = tl.sum(tl.where(first, repeated, 0.0), 0)
    second, left = _others(source, best, early, rows, TILE)
    alone = second == float("-inf")  # nothing else is possible
    share = tl.where(real & (place > 0), repeated / (1.0 - mass), 0.0)
    shares = tl.sum(share, 0)
    for begin in range(0, vocab, TILE):
        v = begin + tl.arange(0, TILE)
        x = logits_at(source, v, v < vocab, early, rows)
        p = exponent(x, peak) / total
        other = tl.where(v == best, 0.0, exponent(x, second) / left)
        other = tl.where(alone, p, other)
        tl.store(target + v, lead * other + p * shares, mask=v < vocab)
    own = logits_at(source, id_, real, early, rows)
    other = tl.where(first, 0.0, exponent(own, second) / left)
    other = tl.where(alone, mass, other)
    return lead * other + tl.maximum(mass * shares - mass * share, 0.0)


@triton.jit
@no_type_check
def _conditioned(rows: LogitRows, whole, few, law, again, TILE: tl.constexpr):
    """Write `again` times the softmax to all ids that may stand here; return the candidates'.

    Normalised to what may stand here: NaN where nothing may.
    """
    source, target, early, peak, total = whole
    id_, real, _, _ = few
    vocab = rows.vocab
    bar = tl.load(rows.barred + id_, mask=real & early, other=0) != 0
    law = tl.where(bar, 0.0, law)
    possible = tl.sum(law, 0)
    if again > 0:
        sums = tl.zeros([TILE], tl.float32)
        for first in range(0, vocab, TILE):
            v = first + tl.arange(0, TILE)
            x = logits_at(source, v, v < vocab, early, rows)
            sums += exponent(x, peak)
        possible += again * (tl.sum(sums, 0) / total)
        for first in range(0, vocab, TILE):
            v = first + tl.arange(0, TILE)
            x = logits_at(source, v, v < vocab, early, rows)
            tl.store(target + v, again * (exponent(x, peak) / total) / possible, mask=v < vocab)
        own = logits_at(source, id_, real, early, rows)
        law += again * (exponent(own, peak) / total)
    elif possible == 0:
        for first in range(0, vocab, TILE):
            v = first + tl.arange(0, TILE)
            tl.store(target + v, tl.full([TILE], float("nan"), tl.float32), mask=v < vocab)
    return law / possible
