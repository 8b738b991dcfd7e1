"""Kernels of blocks of tokens that are drafted or committed together; a program has an utterance.

`kernels.rounds` draws.
"""

from typing import no_type_check

import triton
import triton.language as tl

from speculative_tts.decoding.gpu.arguments import DraftLaws, Matches, PromptIds, RowArguments
from speculative_tts.decoding.gpu.kernels.rounds import DRAWS, drawn


@triton.jit
@no_type_check
def drawn_kernel(
    rows: RowArguments, step, drafts: DraftLaws, out, sums, PURPOSE: tl.constexpr, CUT: tl.constexpr
):  # fmt: skip
    """Draw the tokens `step` .. step + number after those there are, each from its own law."""
    b, number, vocab = tl.program_id(0), drafts.number, drafts.vocab
    now = tl.load(rows.committed + b) + step
    for j in range(number):
        law = drafts.laws + (b.to(tl.int64) * number + j) * vocab, None, 1.0, False
        at = b * rows.capacity + now + j
        level = tl.load(rows.uniforms + at * DRAWS + PURPOSE)
        token, _ = drawn(law, None, vocab, level, sums + b * CUT.every, CUT)
        tl.store(rows.tokens + at, token)
        tl.store(out + b * number + j, token)


@triton.jit
@no_type_check
def counted(rows: RowArguments, b, number, SIZE: tl.constexpr):
    """Return how many of the next `number` tokens a row may draft: to a stop id, or its room."""
    now = tl.load(rows.committed + b)
    i = tl.arange(0, SIZE)
    token = tl.load(rows.tokens + b * rows.capacity + now + i, mask=i < number, other=0)
    stops = (tl.load(rows.ends + token, mask=i < number, other=0) != 0) & (i < number)
    first = tl.min(tl.where(stops, i + 1, number + 1), 0)
    room = tl.maximum(tl.load(rows.limit + b) - now - 1, 0)
    room = tl.where(tl.load(rows.done + b) != 0, 0, room)
    return tl.minimum(tl.minimum(room, number), first)


@triton.jit
@no_type_check
def counted_kernel(rows: RowArguments, drafted, number, SIZE: tl.constexpr):
    """`drafter.up_to_stop` of `drafter.room`."""
    b = tl.program_id(0)
    tl.store(drafted + b, counted(rows, b, number, SIZE))


@triton.jit
@no_type_check
def commit_kernel(rows: RowArguments, block, number, made, dead, lost, SIZE: tl.constexpr):
    """`BatchState.commit` of a block [batch, number]; counts blocks, and those without a path.

    dead: of which rows, None if there is always a path.
    """
    b, i = tl.program_id(0), tl.arange(0, SIZE)
    inside = i < number
    now, over = tl.load(rows.committed + b), tl.load(rows.done + b) != 0
    token = tl.load(block + b * number + i, mask=inside, other=0)
    stops = inside & (tl.load(rows.ends + token, mask=inside, other=0) != 0)
    first = tl.min(tl.where(stops, i + 1, number + 1), 0)
    most = tl.load(rows.limit + b)
    grown = tl.minimum(now + tl.minimum(first, number), most)
    tl.debug_barrier()  # all have read what is written now
    tl.store(rows.tokens + b * rows.capacity + now + i, token, mask=inside)
    tl.store(rows.committed + b, tl.where(over, now, grown))
    tl.store(rows.done + b, (over | (first <= number) | (grown >= most)).to(tl.uint8))
    tl.store(made + b, tl.load(made + b) + tl.where(over, 0, 1))
    if dead is not None:
        none = (tl.load(dead + b) != 0) & (over == 0)
        tl.store(lost + b, tl.load(lost + b) + none.to(tl.int64))


@triton.jit
@no_type_check
def _said(heard, tokens, place, before, there):
    """The token at a place of those heard and then those spoken; -1 where there is none."""
    there &= place >= 0
    early = tl.load(heard + place, mask=there & (place < before), other=-1)
    late = tl.load(tokens + place - before, mask=there & (place >= before), other=-1)
    return tl.where(place < before, early, late)


@triton.jit
@no_type_check
def lookup_kernel(
    rows: RowArguments, prompts: PromptIds, matches: Matches, drafted, drafts: DraftLaws,
    SIZE: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """`LookupDrafting.propose`: copy what followed the longest match, the newest of those.

    A place counts through prompt and speech.
    """
    b, i = tl.program_id(0), tl.arange(0, SIZE)
    number, vocab, before = drafts.number, drafts.vocab, prompts.before
    heard, own = prompts.heard + b * before, rows.tokens + b * rows.capacity
    newest = before + tl.load(rows.committed + b) - 1
    length = before + rows.capacity
    best = tl.zeros([], tl.int64) - 1
    for first in range(0, newest.to(tl.int32), TILE):
        place = first + tl.arange(0, TILE)
        alike = place < newest
        run = tl.zeros([TILE], tl.int64)
        for back in range(matches.longest):
            last = _said(heard, own, newest - back, before, newest >= 0)
            alike &= (_said(heard, own, place - back, before, alike) == last) & (last >= 0)
            run += alike.to(tl.int64)
        score = tl.where(run >= matches.shortest, run * length + place, -1)
        best = tl.maximum(best, tl.max(score, 0))
    place = best % length
    period = tl.where(best < 0, 1, newest - place)
    guess = _said(heard, own, place + 1 + i % period, before, (i < number) & (best >= 0))
    guess = tl.minimum(tl.maximum(guess, 0), vocab - 1)
    tl.debug_barrier()  # tokens are read before they are written
    tl.store(own + tl.load(rows.committed + b) + i, guess, mask=i < number)
    tl.debug_barrier()
    many = counted(rows, b, number, SIZE)
    tl.store(drafted + b, tl.where(best < 0, 0, many))
    for j in range(number):
        token = tl.sum(tl.where(i == j, guess, 0), 0)
        target = drafts.laws + (b.to(tl.int64) * number + j) * vocab
        for first in range(0, vocab, TILE):
            v = first + tl.arange(0, TILE)
            tl.store(target + v, (v == token).to(tl.float32), mask=v < vocab)
