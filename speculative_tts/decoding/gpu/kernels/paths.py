"""Kernels of a path search over the candidates of heads: the best path, or one that is drawn.

The lattice is that of `kernels.lattice`; a program has an utterance.
"""

from typing import no_type_check

import triton
import triton.language as tl

from speculative_tts.decoding.gpu.arguments import RowArguments
from speculative_tts.decoding.gpu.kernels.lattice import (
    IMPOSSIBLE,
    code_before,
    first_scores,
    heads_of,
    log_sum,
    pairs,
    picked,
    scores_of,
    states_at,
)
from speculative_tts.decoding.gpu.kernels.rounds import ACCEPT, DRAFT, DRAWS, NEXT, drawn
from speculative_tts.decoding.gpu.path_arguments import (
    Endings,
    PathLattice,
    PathOutcome,
    TransitionLogs,
    WalkOutcome,
)


@triton.jit
@no_type_check
def _forward(heads, table: TransitionLogs, uniform, last, scratch, number, LATTICE: tl.constexpr):
    """Go through an utterance's lattice: is no path possible, and in which state does it end?

    `back` then has the state before each one, the best or one that is drawn.
    """
    SIZE: tl.constexpr = LATTICE.size
    TILE: tl.constexpr = LATTICE.tile
    SAMPLE: tl.constexpr = LATTICE.sample
    reached, back = scratch
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
    rows: RowArguments, lattice: PathLattice, said: Endings, table: TransitionLogs, prompted,
    path: PathOutcome, LATTICE: tl.constexpr,
):  # fmt: skip
    """The best path of an utterance, or one drawn backwards, and where speech ends.

    prompted: int64 [batch], the code before each block, None if it is the newest token. A draft's
    tokens are written after those there are, and `laws` that they are certain.
    """
    SIZE: tl.constexpr = LATTICE.size
    b, j = tl.program_id(0), tl.arange(0, SIZE)
    number, vocab = lattice.number, lattice.vocab
    heads = heads_of(lattice, b, LATTICE)
    reached, back = path.reached + b * 2 * SIZE, path.back + b * number * SIZE
    last = code_before(rows, prompted, b, vocab)
    uniform = rows.uniforms + (b * rows.capacity + tl.load(rows.committed + b)) * DRAWS
    none, state = _forward(heads, table, uniform, last, (reached, back), number, LATTICE)
    tl.store(path.dead + b, none.to(tl.uint8))
    cut = 1.0 - tl.load(uniform + ACCEPT)
    for behind in range(number):
        t = number - 1 - behind
        id_, there = states_at(heads, t, j, LATTICE)
        own = scores_of(heads, t, id_, there)
        alone = tl.sum(picked(own[None, :], 0.0, SIZE, False), 0)
        token = tl.sum(tl.where(j == tl.where(none, alone, state), id_, 0), 0).to(tl.int64)
        ended = tl.load(said.over + b * number + t)
        if LATTICE.stops:
            limit = cut if LATTICE.sample else 0.5
            token = tl.where(ended >= limit, tl.load(said.likeliest + b * number + t), token)
        token = tl.where(tl.load(said.alive + b * number + t) != 0, token, vocab)
        tl.store(path.block + b * number + t, token)
        if path.laws is not None:
            tl.store(rows.tokens + b * rows.capacity + tl.load(rows.committed + b) + t, token)
            _certain(path.laws + (b.to(tl.int64) * number + t) * vocab, token, vocab, SIZE)
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
def _messages(heads, table: TransitionLogs, messages, number, LATTICE: tl.constexpr):
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
    rows: RowArguments, lattice: PathLattice, said: Endings, table: TransitionLogs,
    walk: WalkOutcome, LATTICE: tl.constexpr, CUT: tl.constexpr,
):  # fmt: skip
    """Draft a drawn path from its beginning: each token by its law given those before it."""
    SIZE: tl.constexpr = LATTICE.size
    b, j = tl.program_id(0), tl.arange(0, SIZE)
    number, vocab = lattice.number, lattice.vocab
    heads = heads_of(lattice, b, LATTICE)
    messages = walk.messages + b * number * SIZE
    _messages(heads, table, messages, number, LATTICE)
    now = tl.load(rows.committed + b)
    last = code_before(rows, None, b, vocab)
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
        ended = tl.maximum(gone, tl.load(said.over + b * number + t))
        ends_now = tl.where(gone < 1, (ended - gone) / tl.where(gone < 1, 1.0 - gone, 1.0), 1.0)
        gone = ended
        law = walk.laws + (b.to(tl.int64) * number + t) * vocab
        tl.store(law + id_, masses * (1.0 - ends_now), mask=there)
        tl.debug_barrier()
        if LATTICE.stops:
            end = tl.load(said.likeliest + b * number + t)
            more = tl.load(law + end) + ends_now
            tl.debug_barrier()
            tl.store(law + end, more)
            tl.debug_barrier()  # a row without a law overwrites it
        if tl.load(said.alive + b * number + t) == 0:
            _lawless(law, vocab, SIZE)
        tl.debug_barrier()
        level = tl.load(rows.uniforms + (b * rows.capacity + now + t) * DRAWS + DRAFT)
        sums = walk.sums + b * CUT.every
        token, _ = drawn((law, None, 1.0, False), None, vocab, level, sums, CUT)
        tl.store(rows.tokens + b * rows.capacity + now + t, token)
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
