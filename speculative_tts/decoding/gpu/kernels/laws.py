"""Kernels of distributions over a whole vocabulary: softmax, and the nucleus of top-p.

A program computes one row. Nothing is sorted: bits of the least probability of the nucleus are
found two by two.
"""

from typing import no_type_check

import triton
import triton.language as tl

from speculative_tts.decoding.gpu.arguments import LogitRows
from speculative_tts.decoding.gpu.kernels.logits import exponent, is_early, is_odd, logits_at


@triton.jit
@no_type_check
def _looked_at(source, early, rows: LogitRows, TILE: tl.constexpr):
    """Highest logit of a row, the sum of exponents below it, the likeliest id; is there a law?"""
    place, vocab = tl.arange(0, TILE), rows.vocab
    peaks = tl.full([TILE], float("-inf"), tl.float32)
    sums = tl.zeros([TILE], tl.float32)
    best = tl.zeros([TILE], tl.int32)
    bad = tl.zeros([TILE], tl.int32)
    for first in range(0, vocab, TILE):
        v = first + place
        x = logits_at(source, v, v < vocab, early, rows)
        bad |= is_odd(x)
        best = tl.where(x > peaks, v, best)
        higher = tl.where(x > peaks, x, peaks)
        sums = sums * exponent(peaks, higher) + exponent(x, higher)
        peaks = higher
    peak = tl.max(peaks, 0)
    total = tl.sum(sums * exponent(peaks, tl.full([TILE], 0.0, tl.float32) + peak), 0)
    lawless = (tl.max(bad, 0) > 0) | (peak == float("-inf"))
    return peak, total, tl.min(tl.where(peaks == peak, best, vocab), 0), lawless


@triton.jit
@no_type_check
def softmax_kernel(rows: LogitRows, stops, out, TILE: tl.constexpr):
    """Softmax of a row; with `stops` the certain stop id where that is the likeliest token."""
    row, vocab = tl.program_id(0), rows.vocab
    source, target = rows.logits + row.to(tl.int64) * vocab, out + row.to(tl.int64) * vocab
    early = is_early(rows, row)
    peak, total, likeliest, lawless = _looked_at(source, early, rows, TILE)
    sure = False
    if stops is not None:
        sure = tl.load(stops + tl.minimum(likeliest, vocab - 1)) != 0
    for first in range(0, vocab, TILE):
        v = first + tl.arange(0, TILE)
        x = logits_at(source, v, v < vocab, early, rows)
        p = tl.exp(x - peak) / total
        if stops is not None:
            p = tl.where(sure, (v == likeliest).to(tl.float32), p)
        tl.store(target + v, tl.where(lawless, float("nan"), p), mask=v < vocab)


@triton.jit
@no_type_check
def _least(probs, vocab, top_p, TILE: tl.constexpr):
    """Bits of the largest probability that top_p is reached with by those at least as large."""
    least = tl.zeros([], tl.int32)
    for pair in range(15):
        one = tl.full([], 1, tl.int32) << (28 - 2 * pair)
        masses = tl.zeros([TILE], tl.float32)
        twice, thrice = masses, masses
        for first in range(0, vocab, TILE):
            v = first + tl.arange(0, TILE)
            p = tl.load(probs + v, mask=v < vocab, other=0.0)
            bits = p.to(tl.int32, bitcast=True)
            masses += tl.where(bits >= least + one, p, 0.0)
            twice += tl.where(bits >= least + 2 * one, p, 0.0)
            thrice += tl.where(bits >= least + 3 * one, p, 0.0)
        reached = (tl.sum(masses, 0) >= top_p).to(tl.int32)
        reached += (tl.sum(twice, 0) >= top_p).to(tl.int32)
        least += (reached + (tl.sum(thrice, 0) >= top_p).to(tl.int32)) * one
    return least


@triton.jit
@no_type_check
def _within(p, least, before, level, top_p):
    """Probabilities of a tile that stay, and how many of the least ones there were so far."""
    bits = p.to(tl.int32, bitcast=True)
    last = (bits == least) & (p > 0)
    place = level + tl.cumsum(last.to(tl.int32), 0) - 1
    ahead = before + place.to(tl.float32) * least.to(tl.float32, bitcast=True)
    stays = (bits > least) | (last & (ahead < top_p))
    return tl.where(stays, p, 0.0), level + tl.sum(last.to(tl.int32), 0)


@triton.jit
@no_type_check
def nucleus_kernel(rows: LogitRows, stops, out, top_p, TILE: tl.constexpr):
    """The likeliest tokens of a row before which there is less than top_p, of equal ones the first.

    Probabilities are written first and read again: a search by tiles holds any vocabulary.
    """
    row, vocab = tl.program_id(0), rows.vocab
    source, target = rows.logits + row.to(tl.int64) * vocab, out + row.to(tl.int64) * vocab
    early = is_early(rows, row)
    peak, total, likeliest, lawless = _looked_at(source, early, rows, TILE)
    place = tl.arange(0, TILE)
    for first in range(0, vocab, TILE):
        v = first + place
        x = logits_at(source, v, v < vocab, early, rows)
        p = tl.where(lawless, 0.0, exponent(x, peak) / total)
        tl.store(target + v, p, mask=v < vocab)
    tl.debug_barrier()
    least = _least(target, vocab, top_p, TILE)
    larger = tl.zeros([TILE], tl.float32)
    for first in range(0, vocab, TILE):
        p = tl.load(target + first + place, mask=first + place < vocab, other=0.0)
        larger += tl.where(p.to(tl.int32, bitcast=True) > least, p, 0.0)
    before = tl.sum(larger, 0)
    kept, level = tl.zeros([TILE], tl.float32), tl.zeros([], tl.int32)
    for first in range(0, vocab, TILE):
        p = tl.load(target + first + place, mask=first + place < vocab, other=0.0)
        p, level = _within(p, least, before, level, top_p)
        kept += p
    mass, level = tl.sum(kept, 0), tl.zeros([], tl.int32)
    sure = False
    if stops is not None:
        sure = tl.load(stops + tl.minimum(likeliest, vocab - 1)) != 0
    for first in range(0, vocab, TILE):
        v = first + place
        p = tl.load(target + v, mask=v < vocab, other=0.0)
        p, level = _within(p, least, before, level, top_p)
        p = p / mass
        if stops is not None:
            p = tl.where(sure, tl.where(v == likeliest, 1.0, 0.0), p)
        tl.store(target + v, tl.where(lawless, float("nan"), p), mask=v < vocab)
