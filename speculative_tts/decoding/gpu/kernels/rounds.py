"""Kernels of a round: inputs, a drafted token, acceptance, and the token that follows.

A program computes one utterance of the batch. Uniforms are [batch, capacity, 4] float64, by the
position and purpose of `sampling.randomness`; tokens are [batch, capacity] int64, of which `count`
are committed.
"""

from typing import no_type_check

import triton
import triton.language as tl

DRAFT = tl.constexpr(0)  # `sampling.randomness`
ACCEPT = tl.constexpr(1)
AUXILIARY = tl.constexpr(2)
NEXT = tl.constexpr(3)
DRAWS = tl.constexpr(4)
LEAST = tl.constexpr(1e-30)  # `rules.block`
TINY = tl.constexpr(1.1754943508222875e-38)  # the smallest normal float32


@triton.jit
@no_type_check
def _mass(target, draft, at, inside, scale, rejected, RESIDUAL: tl.constexpr):
    """Probabilities of the target, or max(target - draft / scale, 0) of a rejected draft."""
    q = tl.load(target + at, mask=inside, other=0.0)
    if RESIDUAL:
        left = q - tl.load(draft + at, mask=inside & rejected, other=0.0) / scale
        q = tl.where(left <= 0, 0.0, left)
    return q


@triton.jit
@no_type_check
def _summed(
    target, draft, vocab, scale, rejected, sums,
    RESIDUAL: tl.constexpr, LINES: tl.constexpr, LINE: tl.constexpr, ALL: tl.constexpr,
):  # fmt: skip
    """float64 sums of each LINE of the vocabulary [ALL], by way of scratch memory."""
    line, column = tl.arange(0, LINES), tl.arange(0, LINE)
    lines = tl.cdiv(vocab, LINE)
    for first in range(0, lines, LINES):
        at = (first + line)[:, None] * LINE + column[None, :]
        mass = _mass(target, draft, at, at < vocab, scale, rejected, RESIDUAL)
        tl.store(sums + first + line, tl.sum(mass.to(tl.float64), 1))
    tl.debug_barrier()
    every = tl.arange(0, ALL)
    found = tl.load(sums + every, mask=every < lines, other=0.0)
    tl.debug_barrier()
    return found


@triton.jit
@no_type_check
def drawn(
    target, draft, instead, vocab, scale, rejected, uniform, sums,
    RESIDUAL: tl.constexpr, RETRY: tl.constexpr,
    LINES: tl.constexpr, LINE: tl.constexpr, ALL: tl.constexpr,
):  # fmt: skip
    """A token by inverse CDF, `vocab` if there is no distribution; and was there no mass?

    Without mass it is drawn from `instead` (RETRY). The sum that passes the level is looked for
    among lines, then in one line. A token without mass is never drawn, however sums are rounded.
    """
    totals = _summed(target, draft, vocab, scale, rejected, sums, RESIDUAL, LINES, LINE, ALL)
    empty = tl.sum(totals, 0) <= 0
    if RETRY:  # noqa: SIM102 - decided when it is compiled
        if empty:
            target, rejected = instead, rejected & False
            totals = _summed(
                target, draft, vocab, scale, rejected, sums, RESIDUAL, LINES, LINE, ALL
            )
    total = tl.sum(totals, 0)
    level = uniform * total
    ends = tl.cumsum(totals, 0)
    line = _first(ends > level, totals > 0, ALL)
    before = tl.sum(tl.where(tl.arange(0, ALL) < line, totals, 0.0), 0)
    at = line * LINE + tl.arange(0, LINE)
    mass = _mass(target, draft, at, at < vocab, scale, rejected, RESIDUAL).to(tl.float64)
    column = _first(before + tl.cumsum(mass, 0) > level, mass > 0, LINE)
    return tl.where(total > 0, line * LINE + column, vocab).to(tl.int64), empty


@triton.jit
@no_type_check
def _first(passed, possible, SIZE: tl.constexpr):
    """The first possible place that has passed, else the last possible one, else 0."""
    place = tl.arange(0, SIZE)
    first = tl.min(tl.where(passed & possible, place, SIZE), 0)
    last = tl.max(tl.where(possible, place, 0), 0)
    return tl.where(first < SIZE, first, last)


@triton.jit
@no_type_check
def draw_kernel(
    probs, uniform, out, sums, vocab,
    LINES: tl.constexpr, LINE: tl.constexpr, ALL: tl.constexpr,
):  # fmt: skip
    """`randomness.draw`: a token of each row."""
    row = tl.program_id(0)
    source = probs + row.to(tl.int64) * vocab
    token, _ = drawn(
        source, source, source, vocab, 1.0, False, tl.load(uniform + row), sums + row * ALL,
        False, False, LINES, LINE, ALL,
    )  # fmt: skip
    tl.store(out + row, token)


@triton.jit
@no_type_check
def inputs_kernel(
    tokens, count, lengths, done, limit, ids, start, positions, room, newest,
    capacity, vocab, offset, number, ahead, lookahead,
    SIZE: tl.constexpr,
):  # fmt: skip
    """`BatchState.inputs` of an utterance."""
    b = tl.program_id(0)
    now = tl.load(count + b)
    i = tl.arange(0, SIZE)
    place = tl.maximum(now + offset + i, 0)
    fed = tl.load(tokens + b * capacity + place, mask=i < number, other=0)
    tl.store(ids + b * number + i, tl.minimum(fed, vocab - 1), mask=i < number)
    tl.store(start + b, tl.load(lengths + b) + tl.maximum(now + offset, 0))
    tl.store(positions + b * ahead + i, now + i, mask=i < ahead)
    left = tl.load(limit + b) - now - 1
    left = tl.where(tl.load(done + b) != 0, 0, left)
    tl.store(room + b, tl.minimum(tl.maximum(left, 0), lookahead))
    tl.store(newest + b, tl.minimum(now, -offset) - 1)


@triton.jit
@no_type_check
def drafted_kernel(
    probs, tokens, count, lengths, uniforms, ends, drafted, ids, start, position, sums,
    step, capacity, vocab, entropy,
    DOUBTS: tl.constexpr, LINES: tl.constexpr, LINE: tl.constexpr, ALL: tl.constexpr,
):  # fmt: skip
    """Draw the drafted token number `step` of an utterance, write it, prepare the next pass."""
    b = tl.program_id(0)
    place = tl.load(count + b) + step
    source = probs + b.to(tl.int64) * vocab
    uniform = tl.load(uniforms + (b * capacity + place) * DRAWS + DRAFT)
    token, _ = drawn(
        source, source, source, vocab, 1.0, False, uniform, sums + b * ALL,
        False, False, LINES, LINE, ALL,
    )  # fmt: skip
    stopped = tl.load(ends + token) != 0
    if DOUBTS:
        stopped |= _entropy(source, vocab, LINES * LINE, ALL // LINES) > entropy
    most = tl.load(drafted + b)
    tl.store(drafted + b, tl.where(stopped, tl.minimum(most, step + 1), most))
    tl.store(tokens + b * capacity + place, token)
    tl.store(ids + b, tl.minimum(token, vocab - 1))
    tl.store(start + b, tl.load(lengths + b) + place)
    tl.store(position + b, place + 1)


@triton.jit
@no_type_check
def _entropy(probs, vocab, TILE: tl.constexpr, TILES: tl.constexpr):
    """Return the entropy in nats."""
    found = tl.zeros([TILE], tl.float32)
    for part in range(TILES):
        at = part * TILE + tl.arange(0, TILE)
        p = tl.load(probs + at, mask=at < vocab, other=0.0)
        found -= tl.where(p == 0, 0.0, p * tl.log(tl.where(p == 0, 1.0, p)))
    return tl.sum(found, 0)


@triton.jit
@no_type_check
def renew_kernel(uniforms, again, count, capacity, AGAIN: tl.constexpr, SIZE: tl.constexpr):
    """`BatchState.renew`: uniforms of this round's own, but for those of NEXT."""
    b, i = tl.program_id(0), tl.arange(0, SIZE)
    now = tl.load(count + b)
    given = (i < AGAIN * DRAWS) & (i % DRAWS < NEXT)
    fresh = tl.load(again + (b * capacity + now) * AGAIN * DRAWS + i, mask=given, other=0.0)
    tl.store(uniforms + (b * capacity + now) * DRAWS + i, fresh, mask=given)


@triton.jit
@no_type_check
def accept_kernel(
    target, draft, fed, drafted, count, uniforms, tolerance, offsets, groups, levels,
    accepted, scale, capacity, classes, number, members,
    SIZE: tl.constexpr, GROUPS: tl.constexpr, BLOCK: tl.constexpr, MEMBERS: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    """Count the drafted tokens that an utterance accepts, and store what its draft is divided by.

    target, draft: [batch, number + 1 and number, classes], distributions of tokens, or of GROUPS
    (offsets, groups, levels: of which groups a token is). BLOCK: `rules.block`, else a token
    passes if (u - tolerance) draft < target.
    """
    b, i = tl.program_id(0), tl.arange(0, SIZE)
    real = i < number
    length = tl.load(drafted + b)
    token = tl.load(fed + b * (number + 1) + 1 + i, mask=real, other=0)
    at = uniforms + (b * capacity + tl.load(count + b) + i) * DRAWS
    uniform = tl.load(at + ACCEPT, mask=real, other=1.0)
    class_ = token
    if GROUPS:
        auxiliary = tl.load(at + AUXILIARY, mask=real, other=0.0)
        class_ = _group(token, auxiliary, real, offsets, groups, levels, members, MEMBERS)
    target += b.to(tl.int64) * (number + 1) * classes
    draft += b.to(tl.int64) * number * classes
    q = tl.load(target + i.to(tl.int64) * classes + class_, mask=real, other=0.0)
    p = tl.load(draft + i.to(tl.int64) * classes + class_, mask=real, other=0.0)
    if BLOCK:
        taken, weight = _judged(target, draft, classes, q, p, uniform, length, SIZE, TILE)
    else:
        passed = real & (i < length) & ((uniform - tl.load(tolerance)) * p < q)
        taken, weight = tl.min(tl.where(passed, number, i), 0), 1.0
        taken = tl.minimum(taken, number)
    tl.store(accepted + b, taken.to(tl.int64))
    tl.store(scale + b, weight)


@triton.jit
@no_type_check
def _group(token, uniform, real, offsets, groups, levels, members, MEMBERS: tl.constexpr):
    """A group of each token by its uniform (`Group.draw_group`)."""
    first = tl.load(offsets + token, mask=real, other=0)
    last = tl.load(offsets + token + 1, mask=real, other=0)
    level = token.to(tl.float64) + tl.minimum(uniform, 1.0 - 2.0**-30)
    passed = tl.zeros_like(first)
    j = tl.arange(0, MEMBERS)
    for begin in range(0, members, MEMBERS):
        entry = first[:, None] + begin + j[None, :]
        inside = entry < last[:, None]
        end = tl.load(levels + entry, mask=inside, other=float("inf"))
        passed += tl.sum((end <= level[:, None]).to(first.dtype), 1)
    return tl.load(groups + first + passed, mask=real, other=0)


@triton.jit
@no_type_check
def _judged(target, draft, classes, q, p, uniform, length, SIZE: tl.constexpr, TILE: tl.constexpr):
    """`BlockRule.judge`: the longest i that passes with probability h_i, and its P_i."""
    i = tl.arange(0, SIZE)
    ratio = q / tl.where(p < TINY, TINY, p)
    weight, kept = tl.full([], 1.0, tl.float32), tl.full([], 1.0, tl.float32)
    taken = tl.zeros([], tl.int32)
    for j in range(length.to(tl.int32)):
        weight *= tl.sum(tl.where(i == j, ratio, 0.0), 0)
        weight = tl.where(weight > 1.0, 1.0, tl.where(weight < LEAST, LEAST, weight))
        chance = weight
        if j + 1 < length:
            at = (tl.zeros([], tl.int64) + j + 1) * classes
            left = weight * _left(target + at, draft + at, classes, weight, TILE)
            below = left + 1.0 - weight
            chance = tl.where(below > 0, left / below, 1.0)
        if tl.sum(tl.where(i == j, uniform, 0.0), 0) < chance:
            taken, kept = tl.zeros([], tl.int32) + j + 1, weight
    return taken, kept


@triton.jit
@no_type_check
def _left(target, draft, classes, weight, TILE: tl.constexpr):
    """Sum of max(target - draft / weight, 0)."""
    sums = tl.zeros([TILE], tl.float32)
    for first in range(0, classes, TILE):
        at = first + tl.arange(0, TILE)
        sums += _mass(target, draft, at, at < classes, weight, True, True)
    return tl.sum(sums, 0)


@triton.jit
@no_type_check
def settle_kernel(
    target, draft, mass, accepted, drafted, scale,
    tokens, count, done, limit, ends, uniforms, tally, sums, capacity, vocab, number, lookahead,
    DRAFTED: tl.constexpr, RESIDUAL: tl.constexpr, RETRY: tl.constexpr, SIZE: tl.constexpr,
    LINES: tl.constexpr, LINE: tl.constexpr, ALL: tl.constexpr,
):  # fmt: skip
    """Draw the token after the accepted ones, append, count.

    It is drawn from the residual of `target` and `draft` (RESIDUAL) or from `mass` [batch, vocab],
    or if there is none from the target (RETRY). Without DRAFTED there was no draft.
    """
    b = tl.program_id(0)
    now = tl.load(count + b)
    taken, length, weight = tl.zeros([], tl.int64), tl.zeros([], tl.int64), 1.0
    instead = target
    if DRAFTED:
        taken, length, weight = tl.load(accepted + b), tl.load(drafted + b), tl.load(scale + b)
        instead = target + (b.to(tl.int64) * (number + 1) + taken) * vocab
    end = now + taken
    if RESIDUAL:
        source = instead
        lower = draft + (b.to(tl.int64) * number + tl.minimum(taken, number - 1)) * vocab
    else:
        source = mass + b.to(tl.int64) * vocab
        lower = source
    uniform = tl.load(uniforms + (b * capacity + end) * DRAWS + NEXT)
    token, empty = drawn(
        source, lower, instead, vocab, weight, taken < length, uniform, sums + b * ALL,
        RESIDUAL, RETRY, LINES, LINE, ALL,
    )  # fmt: skip
    before = tl.load(tokens + b * capacity + tl.maximum(end - 1, 0))
    bare = (taken > 0) & (tl.load(ends + before) != 0)
    over = tl.load(done + b) != 0
    after = end + tl.where(bare, 0, 1)
    stopped = bare | (tl.load(ends + token) != 0) | (after >= tl.load(limit + b))
    tl.debug_barrier()  # all have read what is written now
    tl.store(tokens + b * capacity + end, token)
    tl.store(count + b, tl.where(over, now, after))
    tl.store(done + b, (over | stopped).to(tl.uint8))
    if DRAFTED:
        empty &= RETRY
        _count(tally + b * (4 + 2 * lookahead), lookahead, over, taken, length, bare, empty, SIZE)


@triton.jit
@no_type_check
def _count(sums, lookahead, over, taken, length, bare, empty, SIZE: tl.constexpr):
    """`Tally.add`: rounds, residuals, bonuses, fallbacks; drafted and accepted by depth."""
    i = tl.arange(0, SIZE)
    rejected = taken < length
    kinds = tl.where(i == 1, rejected, tl.where(i == 2, (taken >= length) & (bare == 0), i == 0))
    kinds = tl.where(i == 3, empty, kinds)
    depth = tl.where(i < 4 + lookahead, i - 4, i - 4 - lookahead)
    counted = tl.where(i < 4, kinds, depth < tl.where(i < 4 + lookahead, length, taken))
    there = (i < 4 + 2 * lookahead) & (over == 0)
    tl.store(sums + i, tl.load(sums + i, mask=there, other=0) + counted.to(tl.int64), mask=there)


@triton.jit
@no_type_check
def pick_kernel(x, index, out, number, width, TILE: tl.constexpr):
    """out[b] = x[b, index[b]], both [.., width]."""
    b, at = tl.program_id(0), tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = at < width
    source = x + (b.to(tl.int64) * number + tl.load(index + b)) * width
    tl.store(out + b.to(tl.int64) * width + at, tl.load(source + at, mask=inside), mask=inside)


@triton.jit
@no_type_check
def leave_kernel(done, answer, batch, SIZE: tl.constexpr):
    """Write 1 if all rows are done, else 0."""
    row = tl.arange(0, SIZE)
    over = tl.load(done + row, mask=row < batch, other=1)
    tl.store(answer, tl.min(over, 0))
