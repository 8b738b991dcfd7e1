"""What a decoding loop returns: tokens and raw counts per row.

Ratios are taken when scores are aggregated.
"""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from speculative_tts.decoding.batch import BatchState


@dataclass(frozen=True)
class Round:
    """One draft and verification of all rows; each tensor is [batch]."""

    active: Tensor  # was the row still running
    drafted: Tensor
    accepted: Tensor
    fallback: Tensor
    bare: Tensor  # no token after the accepted ones, because they end with a stop id

    def reached(self, depths: int) -> Tensor:
        """Positions whose verdict counted, [batch, depths]: the accepted and the first rejected."""
        depth = torch.arange(depths, device=self.drafted.device)
        tried = (depth <= self.accepted[:, None]) & (depth < self.drafted[:, None])
        return tried & self.active[:, None]


@dataclass(frozen=True)
class Outcome:
    """One decoded utterance. tokens = 1 (from the prefill) + accepted + residuals + bonuses."""

    tokens: list[int]  # the stop id included
    stopped: bool  # by a stop id; else by the length limit
    rounds: int = 0
    drafted_per_position: list[int] = field(default_factory=list)
    accepted_per_position: list[int] = field(default_factory=list)
    residuals: int = 0
    bonuses: int = 0
    residual_fallbacks: int = 0
    passes: int = 0  # of the trunk, when it emits several tokens each without verifying them
    unverified: int = 0  # tokens of these passes
    dead_blocks: int = 0  # passes in which no path through the heads' candidates was possible
    failure: str | None = None  # why it was cut short: a model gave no law for the next token

    @property
    def drafted(self) -> int:
        """Drafted tokens that were verified."""
        return sum(self.drafted_per_position)

    @property
    def accepted(self) -> int:
        """Accepted tokens, after the cut at the first stop id."""
        return sum(self.accepted_per_position)


def failure(id_: str, tokens: int) -> str:
    """What to say of an utterance whose next token had no law."""
    return (
        f"{id_}: no law for token {tokens}: logits are NaN or infinite (with "
        "runtime.dtype=bfloat16 try float32, else look at the weights), or a stop id is all that "
        "is possible before the minimum length"
    )


class Counts:
    """What came of the rounds, row by row, added up in a tensor that stays where it is.

    int64 [batch, 4 + 2 * lookahead]: rounds, residuals, bonuses, fallbacks; drafted and accepted by
    depth in the round.
    """

    def __init__(self, batch: int, lookahead: int, device: torch.device) -> None:
        self.lookahead = lookahead
        shape = (batch, 4 + 2 * lookahead)
        self.sums = torch.zeros(shape, dtype=torch.int64, device=device)

    def clear(self) -> None:
        """Of another batch."""
        self.sums.zero_()

    def add(self, made: Round) -> None:
        """One more round."""
        rejected = made.accepted < made.drafted
        full = ~rejected & ~made.bare
        kinds = torch.stack([torch.ones_like(rejected), rejected, full, made.fallback], 1)
        depth = torch.arange(self.lookahead, device=self.sums.device)
        at = [depth < length[:, None] for length in (made.drafted, made.accepted)]
        self.sums += torch.cat([kinds, *at], 1) & made.active[:, None]


def outcomes(rows: BatchState, counts: Counts | None = None) -> list[Outcome]:
    """Collect a finished batch; reads the device a few times, whatever the batch."""
    kept = zip(rows.requests, rows.tokens.tolist(), rows.count.tolist(), strict=True)
    emitted = [(request.id, row[:n]) for request, row, n in kept]
    nothing, stop_ids = len(rows.ends) - 1, set(rows.ends.nonzero()[:-1, 0].tolist())
    bare = [
        Outcome(
            [token for token in row if token != nothing],
            stopped=row[-1] in stop_ids,
            failure=failure(id_, len(row) - 1) if row[-1] == nothing else None,
        )
        for id_, row in emitted
    ]
    if counts is None:
        return bare
    sums, depths = counts.sums.tolist(), counts.lookahead
    return [
        replace(
            one,
            rounds=row[0],
            residuals=row[1],
            bonuses=row[2],
            residual_fallbacks=row[3],
            drafted_per_position=row[4 : 4 + depths],
            accepted_per_position=row[4 + depths :],
        )
        for one, row in zip(bare, sums, strict=True)
    ]
