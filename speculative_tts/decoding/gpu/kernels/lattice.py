"""Kernels that make the lattice of a path search (`blocks.viterbi`), and helpers that read it.

A lattice has, at each of `number` positions, states: ids in ascending order that all positions
share, or those of each by their logits. Beyond `width` and at `vocab` and above there is no state.
A state's score is its head's logit; what leads from one to the next is a transition's logarithm,
from a table [after, before] or by binary search among the keys of seen pairs.

Helpers take an utterance's heads together: (logits, states, is_stop, width, vocab, temperature).
"""

from typing import no_type_check

import triton
import triton.language as tl

from speculative_tts.decoding.gpu.arguments import LogitRows, PartCandidates, RowArguments
from speculative_tts.decoding.gpu.kernels.likeliest import keys_of, merge, rank
from speculative_tts.decoding.gpu.kernels.logits import exponent, is_early, is_odd, logits_at
from speculative_tts.decoding.gpu.path_arguments import (
    Endings,
    HeadStates,
    PathLattice,
    StopIds,
    TransitionLogs,
)

IMPOSSIBLE = tl.constexpr(float("-inf"))


@triton.jit
@no_type_check
def heads_kernel(
    rows: LogitRows, found: PartCandidates, stops: StopIds, heads: HeadStates, said: Endings,
    CHOICE: tl.constexpr, ENDING: tl.constexpr,
):  # fmt: skip
    """Candidates of a head by their logits, the likeliest stop id, and is it the end?

    Stop ids are the barred ones. over: the probability among the candidates that speech has ended
    (ENDING.sample), else 1 where a stop id is likelier than all.
    """
    STOPS: tl.constexpr = ENDING.stops
    row = tl.program_id(0)
    id_, x, real, bad = merge(found, row, CHOICE)
    _, place = rank(keys_of(x), x, real)
    tl.store(heads.states + row * heads.stride + place, id_, mask=real)
    peak = tl.max(tl.where(real, x, IMPOSSIBLE), 0)
    best, high = tl.zeros([], tl.int64), tl.full([], IMPOSSIBLE, tl.float32)
    if STOPS:
        s = tl.arange(0, STOPS)
        stop = tl.load(stops.stop_ids + s, mask=s < stops.n_stops, other=0)
        early, source = is_early(rows, row), rows.logits + row.to(tl.int64) * rows.vocab
        own = logits_at(source, stop, s < stops.n_stops, early, rows)
        bad |= tl.max(is_odd(own), 0) > 0
        own = tl.where(is_odd(own) != 0, IMPOSSIBLE, own)
        high = tl.max(own, 0)
        first = tl.min(tl.where((own == high) & (s < stops.n_stops), s, STOPS - 1), 0)
        best = tl.sum(tl.where(s == first, stop, 0), 0)
    if ENDING.sample:
        ending = tl.load(rows.barred + id_, mask=real, other=0) != 0
        p = tl.where(real, exponent(x, peak), 0.0)
        ended = tl.sum(tl.where(ending, p, 0.0), 0) / tl.sum(p, 0)
        if ENDING.sure:
            ended = tl.where(tl.max((ending & (place == 0)).to(tl.int32), 0) > 0, 1.0, ended)
    else:
        ended = (high > peak).to(tl.float32)
        peak = tl.maximum(high, peak)
    tl.store(said.over + row, tl.minimum(ended, 1.0))
    tl.store(said.likeliest + row, best)
    tl.store(said.alive + row, ((bad == 0) & (peak > IMPOSSIBLE)).to(tl.uint8))


@triton.jit
@no_type_check
def union_kernel(flat, states, size, vocab, SIZE: tl.constexpr, TILE: tl.constexpr):
    """Distinct ids of a row's `size` candidates in ascending order, `vocab` after them."""
    b, j = tl.program_id(0), tl.arange(0, SIZE)
    flat, states = flat + b * size, states + b * SIZE
    tl.store(states + j, tl.zeros([SIZE], tl.int32) + vocab)
    every = tl.load(flat + j, mask=j < size, other=vocab)
    for first in range(0, SIZE, TILE):  # what was there before is none
        i = first + tl.arange(0, TILE)
        own = tl.load(flat + i, mask=i < size, other=vocab)
        again = (every[None, :] == own[:, None]) & (j[None, :] < i[:, None])
        own = tl.where(tl.max(again.to(tl.int32), 1) > 0, vocab, own)
        tl.debug_barrier()
        tl.store(flat + i, own, mask=i < size)
    tl.debug_barrier()
    every = tl.load(flat + j, mask=j < size, other=vocab)
    for first in range(0, SIZE, TILE):
        i = first + tl.arange(0, TILE)
        own = tl.load(flat + i, mask=i < size, other=vocab)
        place = tl.sum((every[None, :] < own[:, None]).to(tl.int32), 1)
        tl.store(states + place, own, mask=own < vocab)


@triton.jit
@no_type_check
def pairs(table: TransitionLogs, after, before, there, LATTICE: tl.constexpr):
    """Logarithms of transitions to `after` from `before`, impossible where there is no state."""
    if LATTICE.dense:
        at = table.seen + after * table.n_ids + before
        return tl.load(at, mask=there, other=IMPOSSIBLE)
    other = tl.load(table.row + before, mask=there, other=0.0)
    other += tl.load(table.column + after, mask=there, other=IMPOSSIBLE)
    wanted = before.to(tl.int64) * table.n_ids + after
    low = wanted * 0
    high = low + table.length
    for _ in range(LATTICE.steps):  # the first key that is not below the wanted one
        middle = (low + high) // 2
        below = tl.load(table.keys + middle, mask=there & (middle < high), other=0) < wanted
        below &= middle < high
        low, high = tl.where(below, middle + 1, low), tl.where(below, high, middle)
    found = there & (low < table.length)
    hit = found & (tl.load(table.keys + low, mask=found, other=-1) == wanted)
    return tl.where(hit, tl.load(table.seen + low, mask=hit, other=0.0), other)


@triton.jit
@no_type_check
def heads_of(lattice: PathLattice, b, LATTICE: tl.constexpr):
    """Return an utterance's heads."""
    logits = lattice.logits + b.to(tl.int64) * lattice.number * lattice.vocab
    states = lattice.states + b * LATTICE.size * (1 if LATTICE.shared else lattice.number)
    return logits, states, lattice.is_stop, lattice.width, lattice.vocab, lattice.temperature


@triton.jit
@no_type_check
def states_at(heads, t, j, LATTICE: tl.constexpr):
    """Ids of states j of position t, and which there are."""
    _, states, _, width, vocab, _ = heads
    at = j if LATTICE.shared else t * LATTICE.size + j
    id_ = tl.load(states + at, mask=j < width, other=vocab)
    return tl.where(id_ < vocab, id_, 0), id_ < vocab


@triton.jit
@no_type_check
def scores_of(heads, t, id_, there):
    """Scores of states of position t: no path goes through a stop id or what is no number."""
    logits, _, is_stop, _, vocab, temperature = heads
    x = tl.load(logits + t * vocab + id_, mask=there, other=IMPOSSIBLE) / temperature
    barred = (tl.load(is_stop + id_, mask=there, other=0) != 0) | (is_odd(x) != 0)
    return tl.where(barred, IMPOSSIBLE, x)


@triton.jit
@no_type_check
def log_sum(x, AXIS: tl.constexpr):
    """Logarithm of the sum of exponents, impossible where all are."""
    peak = tl.max(x, AXIS)
    finite = tl.where(peak == IMPOSSIBLE, 0.0, peak)
    total = tl.sum(tl.exp(x - tl.expand_dims(finite, AXIS)), AXIS)
    return tl.where(
        peak == IMPOSSIBLE, IMPOSSIBLE, finite + tl.log(tl.where(total > 0, total, 1.0))
    )


@triton.jit
@no_type_check
def picked(logs, uniform, SIZE: tl.constexpr, SAMPLE: tl.constexpr):
    """A state of each row of logs [rows, SIZE]: the likeliest, or one drawn by a uniform."""
    j = tl.arange(0, SIZE)[None, :]
    peak = tl.max(logs, 1)[:, None]
    if SAMPLE:
        mass = tl.where(peak == IMPOSSIBLE, 0.0, tl.exp(logs - peak)).to(tl.float64)
        sums = tl.cumsum(mass, 1)
        level = uniform * tl.max(sums, 1)[:, None]
        last = tl.max(tl.where(mass > 0, j, 0), 1)
        return tl.minimum(tl.min(tl.where((sums > level) & (mass > 0), j, SIZE), 1), last)
    return tl.min(tl.where(logs == peak, j, SIZE - 1), 1)


@triton.jit
@no_type_check
def first_scores(heads, table: TransitionLogs, last, LATTICE: tl.constexpr):
    """Scores at the first position, with the transition from the code before, if there is one."""
    SIZE: tl.constexpr = LATTICE.size
    id_, there = states_at(heads, 0, tl.arange(0, SIZE), LATTICE)
    x = scores_of(heads, 0, id_, there)
    if LATTICE.boundary:
        before = tl.zeros([SIZE], tl.int32) + tl.maximum(last, 0).to(tl.int32)
        step = pairs(table, id_, before, there, LATTICE)
        x += tl.where(last >= 0, step, 0.0)
    return x


@triton.jit
@no_type_check
def code_before(rows: RowArguments, prompted, b, vocab):
    """The code before a block: the prompt's last (-1: none), later, if None, the newest token."""
    if prompted is not None:
        return tl.load(prompted + b)
    place = tl.maximum(tl.load(rows.committed + b) - 1, 0)
    return tl.minimum(tl.load(rows.tokens + b * rows.capacity + place), vocab - 1)
