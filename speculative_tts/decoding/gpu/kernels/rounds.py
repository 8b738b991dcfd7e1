"""Kernels of a round: inputs, a drafted token, acceptance, and the token that follows.

A program computes one utterance; uniforms are by the position and purpose of `randomness`. Helpers
take a distribution as four: probabilities of the target, those of a draft, what these are divided
by, and is the draft rejected? With a draft, None if there is none, it is the residual.
"""

from typing import no_type_check

import triton
import triton.language as tl

from speculative_tts.decoding.gpu.arguments import (
    Accepted,
    DrawnLaws,
    InputSizes,
    InputTensors,
    Judging,
    NextInputs,
    NextMass,
    RowArguments,
    TallySums,
    TokenGroups,
)

DRAFT = tl.constexpr(0)  # `sampling.randomness`
ACCEPT = tl.constexpr(1)
AUXILIARY = tl.constexpr(2)
NEXT = tl.constexpr(3)
DRAWS = tl.constexpr(4)
LEAST = tl.constexpr(1e-30)  # `rules.block`
TINY = tl.constexpr(1.1754943508222875e-38)  # the smallest normal float32


@triton.jit
@no_type_check
def _mass(law, at, inside):
    """Probabilities of the target, or max(target - draft / scale, 0) of a rejected draft."""
    target, draft, scale, rejected = law
    q = tl.load(target + at, mask=inside, other=0.0)
    if draft is not None:
        left = q - tl.load(draft + at, mask=inside & rejected, other=0.0) / scale
        q = tl.where(left <= 0, 0.0, left)
    return q


@triton.jit
@no_type_check
def _summed(law, vocab, sums, CUT: tl.constexpr):
    """float64 sums of each line of the vocabulary [every], by way of scratch memory."""
    LINES: tl.constexpr = CUT.lines
    LINE: tl.constexpr = CUT.line
    ALL: tl.constexpr = CUT.every
    line, column = tl.arange(0, LINES), tl.arange(0, LINE)
    lines = tl.cdiv(vocab, LINE)
    for first in range(0, lines, LINES):
        at = (first + line)[:, None] * LINE + column[None, :]
        mass = _mass(law, at, at < vocab)
        tl.store(sums + first + line, tl.sum(mass.to(tl.float64), 1))
    tl.debug_barrier()
    every = tl.arange(0, ALL)
    found = tl.load(sums + every, mask=every < lines, other=0.0)
    tl.debug_barrier()
    return found


@triton.jit
@no_type_check
def drawn(law, instead, vocab, uniform, sums, CUT: tl.constexpr):
    """A token by inverse CDF, `vocab` if there is no distribution; and was there no mass?

    Without mass it is drawn from `instead`, unless that is None. The sum that passes the level is
    looked for among lines, then in one line. A token without mass is never drawn, however sums are
    rounded.
    """
    LINE: tl.constexpr = CUT.line
    ALL: tl.constexpr = CUT.every
    target, draft, scale, rejected = law
    totals = _summed(law, vocab, sums, CUT)
    empty = tl.sum(totals, 0) <= 0
    if instead is not None:  # noqa: SIM102 - decided when it is compiled
        if empty:
            target, rejected = instead, rejected & False
            totals = _summed((target, draft, scale, rejected), vocab, sums, CUT)
    total = tl.sum(totals, 0)
    level = uniform * total
    ends = tl.cumsum(totals, 0)
    line = _first(ends > level, totals > 0, ALL)
    before = tl.sum(tl.where(tl.arange(0, ALL) < line, totals, 0.0), 0)
    at = line * LINE + tl.arange(0, LINE)
    mass = _mass((target, draft, scale, rejected), at, at < vocab).to(tl.float64)
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
def draw_kernel(probs, uniform, out, sums, vocab, CUT: tl.constexpr):
    """`randomness.draw`: a token of each row."""
    row = tl.program_id(0)
    law = probs + row.to(tl.int64) * vocab, None, 1.0, False
    level = tl.load(uniform + row)
    token, _ = drawn(law, None, vocab, level, sums + row * CUT.every, CUT)
    tl.store(out + row, token)


@triton.jit
@no_type_check
def inputs_kernel(
    rows: RowArguments, lengths, inputs: InputTensors, sizes: InputSizes, SIZE: tl.constexpr
):  # fmt: skip
    """`BatchState.inputs` of an utterance."""
    b = tl.program_id(0)
    now = tl.load(rows.committed + b)
    i = tl.arange(0, SIZE)
    number, offset = sizes.number, sizes.offset
    place = tl.maximum(now + offset + i, 0)
    fed = tl.load(rows.tokens + b * rows.capacity + place, mask=i < number, other=0)
    tl.store(inputs.ids + b * number + i, tl.minimum(fed, sizes.vocab - 1), mask=i < number)
    tl.store(inputs.start + b, tl.load(lengths + b) + tl.maximum(now + offset, 0))
    tl.store(inputs.positions + b * sizes.ahead + i, now + i, mask=i < sizes.ahead)
    left = tl.load(rows.limit + b) - now - 1
    left = tl.where(tl.load(rows.done + b) != 0, 0, left)
    tl.store(inputs.room + b, tl.minimum(tl.maximum(left, 0), sizes.lookahead))
    tl.store(inputs.newest + b, tl.minimum(now, -offset) - 1)


@triton.jit
@no_type_check
def drafted_kernel(
    rows: RowArguments, step, lengths, probs: DrawnLaws, following: NextInputs, entropy,
    CUT: tl.constexpr,
):  # fmt: skip
    """Draw the drafted token number `step` of an utterance, write it, prepare the next pass.

    entropy: of a distribution whose token ends the draft, None if none does.
    """
    b, vocab = tl.program_id(0), probs.vocab
    place = tl.load(rows.committed + b) + step
    source = probs.probs + b.to(tl.int64) * vocab
    uniform = tl.load(rows.uniforms + (b * rows.capacity + place) * DRAWS + DRAFT)
    sums = probs.sums + b * CUT.every
    token, _ = drawn((source, None, 1.0, False), None, vocab, uniform, sums, CUT)
    stopped = tl.load(rows.ends + token) != 0
    if entropy is not None:
        stopped |= _entropy(source, vocab, CUT) > entropy
    most = tl.load(following.drafted + b)
    tl.store(following.drafted + b, tl.where(stopped, tl.minimum(most, step + 1), most))
    tl.store(rows.tokens + b * rows.capacity + place, token)
    tl.store(following.ids + b, tl.minimum(token, vocab - 1))
    tl.store(following.start + b, tl.load(lengths + b) + place)
    tl.store(following.position + b, place + 1)


@triton.jit
@no_type_check
def _entropy(probs, vocab, CUT: tl.constexpr):
    """Return the entropy in nats."""
    TILE: tl.constexpr = CUT.lines * CUT.line
    found = tl.zeros([TILE], tl.float32)
    for part in range(CUT.every // CUT.lines):
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
    rows: RowArguments, judging: Judging, tolerance, groups: TokenGroups, made: Accepted,
    JUDGING: tl.constexpr,
):  # fmt: skip
    """Count the drafted tokens that an utterance accepts, and store what its draft is divided by.

    groups: None where distributions are of tokens. JUDGING.block: `rules.block`, else a token
    passes if (u - tolerance) draft < target.
    """
    SIZE: tl.constexpr = JUDGING.size
    b, i = tl.program_id(0), tl.arange(0, SIZE)
    number, classes = judging.number, judging.classes
    real = i < number
    length = tl.load(judging.drafted + b)
    token = tl.load(judging.fed + b * (number + 1) + 1 + i, mask=real, other=0)
    at = rows.uniforms + (b * rows.capacity + tl.load(rows.committed + b) + i) * DRAWS
    uniform = tl.load(at + ACCEPT, mask=real, other=1.0)
    class_ = token
    if groups is not None:
        auxiliary = tl.load(at + AUXILIARY, mask=real, other=0.0)
        class_ = _group(token, auxiliary, real, groups, JUDGING.members)
    target = judging.target + b.to(tl.int64) * (number + 1) * classes
    draft = judging.draft + b.to(tl.int64) * number * classes
    q = tl.load(target + i.to(tl.int64) * classes + class_, mask=real, other=0.0)
    p = tl.load(draft + i.to(tl.int64) * classes + class_, mask=real, other=0.0)
    if JUDGING.block:
        ratio = q / tl.where(p < TINY, TINY, p)
        laws = target, draft, classes
        taken, weight = _judged(laws, ratio, uniform, length, SIZE, JUDGING.tile)
    else:
        passed = real & (i < length) & ((uniform - tl.load(tolerance)) * p < q)
        taken, weight = tl.min(tl.where(passed, number, i), 0), 1.0
        taken = tl.minimum(taken, number)
    tl.store(made.accepted + b, taken.to(tl.int64))
    tl.store(made.scale + b, weight)


@triton.jit
@no_type_check
def _group(token, uniform, real, groups: TokenGroups, MEMBERS: tl.constexpr):
    """A group of each token by its uniform (`Group.draw_group`)."""
    first = tl.load(groups.offsets + token, mask=real, other=0)
    last = tl.load(groups.offsets + token + 1, mask=real, other=0)
    level = token.to(tl.float64) + tl.minimum(uniform, 1.0 - 2.0**-30)
    passed = tl.zeros_like(first)
    j = tl.arange(0, MEMBERS)
    for begin in range(0, groups.most, MEMBERS):
        entry = first[:, None] + begin + j[None, :]
        inside = entry < last[:, None]
        end = tl.load(groups.levels + entry, mask=inside, other=float("inf"))
        passed += tl.sum((end <= level[:, None]).to(first.dtype), 1)
    return tl.load(groups.groups + first + passed, mask=real, other=0)


@triton.jit
@no_type_check
def _judged(laws, ratio, uniform, length, SIZE: tl.constexpr, TILE: tl.constexpr):
    """`BlockRule.judge`: the longest i that passes with probability h_i, and its P_i."""
    target, draft, classes = laws
    i = tl.arange(0, SIZE)
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
        sums += _mass((target, draft, weight, True), at, at < classes)
    return tl.sum(sums, 0)


@triton.jit
@no_type_check
def settle_kernel(
    rows: RowArguments, laws: NextMass, made: Accepted, counts: TallySums, sums,
    CUT: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Draw the token after the accepted ones, append, count; without a draft made is None."""
    b, vocab, number = tl.program_id(0), laws.vocab, laws.number
    now = tl.load(rows.committed + b)
    taken, length, weight = tl.zeros([], tl.int64), tl.zeros([], tl.int64), 1.0
    if made is not None:
        taken, length = tl.load(made.accepted + b), tl.load(made.drafted + b)
        weight = tl.load(made.scale + b)
    instead, lower = None, None
    if laws.target is not None:
        instead = laws.target + (b.to(tl.int64) * (number + 1) + taken) * vocab
    end = now + taken
    if laws.mass is None:
        source = instead
        lower = laws.draft + (b.to(tl.int64) * number + tl.minimum(taken, number - 1)) * vocab
    else:
        source = laws.mass + b.to(tl.int64) * vocab
    uniform = tl.load(rows.uniforms + (b * rows.capacity + end) * DRAWS + NEXT)
    law = source, lower, weight, taken < length
    token, empty = drawn(law, instead, vocab, uniform, sums + b * CUT.every, CUT)
    before = tl.load(rows.tokens + b * rows.capacity + tl.maximum(end - 1, 0))
    bare = (taken > 0) & (tl.load(rows.ends + before) != 0)
    over = tl.load(rows.done + b) != 0
    after = end + tl.where(bare, 0, 1)
    stopped = bare | (tl.load(rows.ends + token) != 0) | (after >= tl.load(rows.limit + b))
    tl.debug_barrier()  # all have read what is written now
    tl.store(rows.tokens + b * rows.capacity + end, token)
    tl.store(rows.committed + b, tl.where(over, now, after))
    tl.store(rows.done + b, (over | stopped).to(tl.uint8))
    if counts is not None:
        if laws.target is None:
            empty &= False
        own = counts.tally + b * (4 + 2 * counts.lookahead)
        _count(own, counts.lookahead, over, (taken, length), bare, empty, SIZE)


@triton.jit
@no_type_check
def _count(sums, lookahead, over, made, bare, empty, SIZE: tl.constexpr):
    """`Tally.add`: rounds, residuals, bonuses, fallbacks; drafted and accepted by depth."""
    taken, length = made
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
