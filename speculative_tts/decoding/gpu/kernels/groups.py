"""Kernels of sums over groups of tokens (`rules.group`), by lists of members."""

from typing import no_type_check

import triton
import triton.language as tl

from speculative_tts.decoding.gpu.arguments import Accepted, GroupMembers, Residuals, TokenShares
from speculative_tts.decoding.gpu.kernels.rounds import TINY


@triton.jit
@no_type_check
def coarse_kernel(
    probs, members: GroupMembers, out, vocab, groups, SIZE: tl.constexpr, MEMBERS: tl.constexpr
):  # fmt: skip
    """Distribution of the group: out [rows, groups] of probs [rows, vocab], SIZE groups at once."""
    row, k = tl.program_id(0).to(tl.int64), tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    inside = k < groups
    first = tl.load(members.offsets + k, mask=inside, other=0)
    last = tl.load(members.offsets + k + 1, mask=inside, other=0)
    longest = tl.max(last - first, 0)
    j = tl.arange(0, MEMBERS)
    found = tl.zeros([SIZE], tl.float32)
    for begin in range(0, longest, MEMBERS):
        entry = first[:, None] + begin + j[None, :]
        member = entry < last[:, None]
        token = tl.load(members.tokens + entry, mask=member, other=0)
        mass = tl.load(probs + row * vocab + token, mask=member, other=0.0)
        found += tl.sum(mass / tl.load(members.totals + token, mask=member, other=1.0), 1)
    found *= tl.load(members.scores + k, mask=inside, other=0.0)
    tl.store(out + row * groups + k, found, mask=inside)


@triton.jit
@no_type_check
def residual_kernel(
    laws: Residuals, made: Accepted, shares: TokenShares, out,
    SIZE: tl.constexpr, MEMBERS: tl.constexpr,
):  # fmt: skip
    """Mass [batch, vocab] of the token after a rejection, SIZE tokens at once; else the target's.

    sum over a token's groups of max(Q - P / scale, 0) / Q times its share q w of them.
    """
    b, x = tl.program_id(0).to(tl.int64), tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    vocab, groups, number = laws.vocab, laws.groups, laws.number
    inside = x < vocab
    taken = tl.load(made.accepted + b)
    rejected = taken < tl.load(made.drafted + b)
    weight = tl.load(made.scale + b)
    row, lower = b * (number + 1) + taken, b * number + tl.minimum(taken, number - 1)
    q = tl.load(laws.target + row * vocab + x, mask=inside, other=0.0)
    mass = q
    if rejected:
        p = tl.load(laws.draft + lower * vocab + x, mask=inside, other=0.0) / weight
        first = tl.load(shares.offsets + x, mask=inside, other=0)
        last = tl.load(shares.offsets + x + 1, mask=inside, other=0)
        longest = tl.max(last - first, 0)
        j = tl.arange(0, MEMBERS)
        share = tl.zeros([SIZE], tl.float32)
        for begin in range(0, longest, MEMBERS):
            entry = first[:, None] + begin + j[None, :]
            member = entry < last[:, None]
            group = tl.load(shares.memberships + entry, mask=member, other=0)
            most = tl.load(laws.coarse_target + row * groups + group, mask=member, other=0.0)
            less = tl.load(laws.coarse_draft + lower * groups + group, mask=member, other=0.0)
            less /= weight
            left = tl.where(most <= less, 0.0, most - less) / tl.where(most < TINY, TINY, most)
            share += tl.sum(left * tl.load(shares.scores + group, mask=member, other=0.0), 1)
        own = tl.where(q <= p, 0.0, q - p)
        shared = q * (share / tl.load(shares.totals + x, mask=inside, other=1.0))
        mass = tl.where(tl.load(shares.alone + x, mask=inside, other=0) != 0, own, shared)
    tl.store(out + b * vocab + x, mass, mask=inside)
