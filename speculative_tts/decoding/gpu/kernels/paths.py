"""Kernels of a path search over the candidates of heads: the best path, or one that is drawn.

The lattice is that of `kernels.lattice`; a program has an utterance.
"""

from typing import no_type_check

import triton
import triton.language as tl

from speculative_tts.decoding.gpu.kernels.lattice import (
    IMPOSSIBLE,
    code_before,
    first_scores,
    log_sum,
    pairs,
    picked,
    scores_of,
    states_at,
)
from speculative_tts.decoding.gpu.kernels.rounds import DRAWS, drawn


@triton.jit
@no_type_check
def _forward(
    heads, table, uniform, last, reached, back, number,
    LATTICE: tl.constexpr, SAMPLE: tl.constexpr, NEXT: tl.constexpr,
):  # fmt: skip
    """Go through an utterance's lattice: is no path possible, and in which state does it end?

    `back` then has the state before each one, the best or one that is drawn.
    """
    SIZE: tl.constexpr = LATTICE.size
    TILE: tl.constexpr = LATTICE.tile
    j = tl.arange(0, SIZE)
    tl.store(reached + j, first_scores(heads, table, last, LATTICE))
    for t in range(1, number):
        tl.debug_barrier()
        so_far = tl.load(reached + (t - 1) % 2 * SIZE + j)
        early, there = states_at(heads, t - 1, j, LATTICE)
        level = tl.load(uniform + (t - 1) * DRAWS + NEXT)
        for first in range(0, SIZE, TILE):
            i = first + tl.arange(0, TILE)
            late, real = states_at(heads, t, i, LATTICE)
            both = real[:, None] & there[None, :]
            steps = pairs(table, late[:, None], early[None, :], both, LATTICE)
            into = steps + so_far[None, :]
            tl.store(back + t * SIZE + i, picked(into, level, SIZE, SAMPLE))
            sums = tl.max(into, 1)
            if SAMPLE:
                sums = log_sum(into, 1)
            sums += scores_of(heads, t, late, real)
            tl.store(reached + t % 2 * SIZE + i, sums)
    tl.debug_barrier()
    so_far = tl.load(reached + (number - 1) % 2 * SIZE + j)
    none = tl.max(so_far, 0) == IMPOSSIBLE
    level = tl.load(uniform + (number - 1) * DRAWS + NEXT)
    state = tl.sum(picked(so_far[None, :], level, SIZE, SAMPLE), 0)
    return none, state


@triton.jit
@no_type_check
def path_kernel(
    logits, states, is_stop, over, ends, alive, keys, seen, row, column, tokens, count, uniforms,
    prompted, reached, back, block, dead, laws,
    number, width, vocab, n_ids, length, capacity, temperature,
    LATTICE: tl.constexpr, SAMPLE: tl.constexpr, PROMPTED: tl.constexpr, DRAFTS: tl.constexpr,
    ACCEPT: tl.constexpr, NEXT: tl.constexpr,
):  # fmt: skip
    """The best path of an utterance, or one drawn backwards (SAMPLE), and where speech ends.

    reached: [batch, 2, size], back: [batch, number, size] of scratch memory. DRAFTS: write the
    tokens after those there are, and that they are certain; `laws` has zeros so far.
    """
    SIZE: tl.constexpr = LATTICE.size
    b, j = tl.program_id(0), tl.arange(0, SIZE)
    logits += b.to(tl.int64) * number * vocab
    states += b * SIZE * (1 if LATTICE.shared else number)
    heads = logits, states, is_stop, width, vocab, temperature
    table = keys, seen, row, column, n_ids, length
    reached, back = reached + b * 2 * SIZE, back + b * number * SIZE
    last = code_before(tokens, count, prompted, b, capacity, vocab, PROMPTED)
    uniform = uniforms + (b * capacity + tl.load(count + b)) * DRAWS
    none, state = _forward(
        heads, table, uniform, last, reached, back, number, LATTICE, SAMPLE, NEXT
    )  # fmt: skip
    tl.store(dead + b, none.to(tl.uint8))
    cut = 1.0 - tl.load(uniform + ACCEPT)
    for behind in range(number):
        t = number - 1 - behind
        id_, there = states_at(heads, t, j, LATTICE)
        own = scores_of(heads, t, id_, there)
        alone = tl.sum(picked(own[None, :], 0.0, SIZE, False), 0)
        token = tl.sum(tl.where(j == tl.where(none, alone, state), id_, 0), 0).to(tl.int64)
        ended = tl.load(over + b * number + t)
        if LATTICE.stops:
            limit = cut if SAMPLE else 0.5
            token = tl.where(ended >= limit, tl.load(ends + b * number + t), token)
        token = tl.where(tl.load(alive + b * number + t) != 0, token, vocab)
        tl.store(block + b * number + t, token)
        if DRAFTS:
            tl.store(tokens + b * capacity + tl.load(count + b) + t, token)
            _certain(laws + (b.to(tl.int64) * number + t) * vocab, token, vocab, SIZE)
        if t > 0:
            state = tl.load(back + t * SIZE + state)


@triton.jit
@no_type_check
def _certain(law, token, vocab, SIZE: tl.constexpr):
    """Write that a token is certain to a law of zeros, NaN where it is none."""
    if token < vocab:
        tl.store(law + token, 1.0)
    else:
        _lawless(law, vocab, SIZE)


@triton.jit
@no_type_check
def _lawless(law, vocab, SIZE: tl.constexpr):
    """Write that there is no law."""
    for first in range(0, vocab, SIZE):
        v = first + tl.arange(0, SIZE)
        tl.store(law + v, tl.full([SIZE], float("nan"), tl.float32), mask=v < vocab)


@triton.jit
@no_type_check
def _messages(heads, table, messages, number, LATTICE: tl.constexpr):
    """Write the log mass of all ways on from each state to the end, the last position first."""
    SIZE: tl.constexpr = LATTICE.size
    TILE: tl.constexpr = LATTICE.tile
    j = tl.arange(0, SIZE)
    tl.store(messages + (number - 1) * SIZE + j, tl.zeros([SIZE], tl.float32))
    for behind in range(1, number):
        t = number - 1 - behind
        tl.debug_barrier()
        late, there = states_at(heads, t + 1, j, LATTICE)
        on = scores_of(heads, t + 1, late, there)
        on += tl.load(messages + (t + 1) * SIZE + j)
        for first in range(0, SIZE, TILE):
            i = first + tl.arange(0, TILE)
            early, real = states_at(heads, t, i, LATTICE)
            both = real[:, None] & there[None, :]
            steps = pairs(table, late[None, :], early[:, None], both, LATTICE)
            tl.store(messages + t * SIZE + i, log_sum(steps + on[None, :], 1))
    tl.debug_barrier()


@triton.jit
@no_type_check
def walk_kernel(
    logits, states, is_stop, over, ends, alive, keys, seen, row, column, tokens, count, uniforms,
    messages, laws, sums,
    number, width, vocab, n_ids, length, capacity, temperature,
    LATTICE: tl.constexpr, DRAFT: tl.constexpr,
    LINES: tl.constexpr, LINE: tl.constexpr, ALL: tl.constexpr,
):  # fmt: skip
    """Draft a drawn path from its beginning: each token by its law given those before it.

    messages: [batch, number, size] of scratch memory, log masses of all ways on; laws: zeros.
    """
    SIZE: tl.constexpr = LATTICE.size
    b, j = tl.program_id(0), tl.arange(0, SIZE)
    logits += b.to(tl.int64) * number * vocab
    states += b * SIZE * (1 if LATTICE.shared else number)
    heads = logits, states, is_stop, width, vocab, temperature
    table = keys, seen, row, column, n_ids, length
    messages += b * number * SIZE
    _messages(heads, table, messages, number, LATTICE)
    now = tl.load(count + b)
    last = code_before(tokens, count, count, b, capacity, vocab, False)
    gone, before = tl.full([], 0.0, tl.float32), tl.zeros([], tl.int64)
    for t in range(number):
        id_, there = states_at(heads, t, j, LATTICE)
        own = scores_of(heads, t, id_, there)
        masses = own
        if t == 0:
            masses = first_scores(heads, table, last, LATTICE)
        else:
            source = tl.zeros([SIZE], tl.int32) + before.to(tl.int32)
            masses += pairs(table, id_, source, there, LATTICE)
        masses = _law(masses + tl.load(messages + t * SIZE + j), own, there)
        ended = tl.maximum(gone, tl.load(over + b * number + t))
        ends_now = tl.where(gone < 1, (ended - gone) / tl.where(gone < 1, 1.0 - gone, 1.0), 1.0)
        gone = ended
        law = laws + (b.to(tl.int64) * number + t) * vocab
        tl.store(law + id_, masses * (1.0 - ends_now), mask=there)
        tl.debug_barrier()
        if LATTICE.stops:
            end = tl.load(ends + b * number + t)
            more = tl.load(law + end) + ends_now
            tl.debug_barrier()
            tl.store(law + end, more)
            tl.debug_barrier()  # a row without a law overwrites it
        if tl.load(alive + b * number + t) == 0:
            _lawless(law, vocab, SIZE)
        tl.debug_barrier()
        level = tl.load(uniforms + (b * capacity + now + t) * DRAWS + DRAFT)
        token, _ = drawn(
            law, law, law, vocab, 1.0, False, level, sums + b * ALL, False, False, LINES, LINE, ALL
        )  # fmt: skip
        tl.store(tokens + b * capacity + now + t, token)
        state = tl.min(tl.where((id_ == token) & (masses > 0), j, SIZE), 0)
        before = tl.sum(tl.where(j == tl.where(state < SIZE, state, 0), id_, 0), 0).to(tl.int64)


@triton.jit
@no_type_check
def _law(masses, own, there):
    """Normalise log masses; where no path is possible a head's own count, or else all alike."""
    if tl.max(masses, 0) == IMPOSSIBLE:
        masses = own
    if tl.max(masses, 0) == IMPOSSIBLE:
        masses = tl.where(there, 0.0, IMPOSSIBLE)
    p = tl.exp(masses - tl.max(masses, 0))
    return p / tl.sum(p, 0)
