"""The result of a decoding loop: tokens and raw counts per row.

Ratios are taken when scores are aggregated.
"""

from dataclasses import dataclass, field
from itertools import repeat

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from speculative_tts.decoding.batch import BatchState, ByRow
from speculative_tts.records import Counts


@dataclass(frozen=True)
class Round:
    """One draft and verification of all rows."""

    active: Bool[Tensor, " batch"]  # was the row still running
    drafted: Int64[Tensor, " batch"]
    accepted: Int64[Tensor, " batch"]
    fallback: Bool[Tensor, " batch"]
    bare: Bool[
        Tensor, " batch"
    ]  # no token after the accepted ones, because they end with a stop id
    weights: Float[Tensor, "batch depths"] | None = None  # see `acceptance.Verdict`

    def reached(self, depths: int) -> Bool[Tensor, "batch depths"]:
        """Return the positions whose verdict counted: the accepted and the first rejected."""
        depth = torch.arange(depths, device=self.drafted.device)
        tried = (depth <= self.accepted[:, None]) & (depth < self.drafted[:, None])
        return tried & self.active[:, None]


@dataclass(frozen=True)
class Outcome:
    """One decoded utterance. tokens = 1 (from the prefill) + accepted + residuals + bonuses."""

    tokens: list[int]  # the stop id included
    stopped: bool  # by a stop id; else by the length limit
    counts: Counts = field(default_factory=Counts)
    failure: str | None = None  # why it was cut short: its next token had no distribution
    # seconds of drafting, verifying and accepting of a whole batch, where the loop clocks itself
    split: tuple[float, ...] | None = field(default=None, compare=False)


def failure(id_: str, tokens: int) -> str:
    """Say why an utterance was cut short: its next token had no distribution."""
    return (
        f"{id_}: no law for token {tokens}: logits are NaN or infinite (with "
        "runtime.dtype=bfloat16 try float32, else look at the weights), or a stop id is all that "
        "is possible before the minimum length"
    )


class Tally(ByRow):
    """Counts of the rounds, summed per row in a tensor that is never reallocated.

    int64 [batch, 4 + 2 * lookahead]: rounds, residuals, bonuses, fallbacks; drafted and accepted by
    depth in the round.
    """

    by_row = ("sums",)

    def __init__(self, batch: int, lookahead: int, device: torch.device) -> None:
        self.lookahead = lookahead
        shape = (batch, 4 + 2 * lookahead)
        self.sums = torch.zeros(shape, dtype=torch.int64, device=device)

    def clear(self) -> None:
        """Reset for a new batch."""
        self.sums.zero_()

    def add(self, made: Round) -> None:
        """Count one more round."""
        rejected = made.accepted < made.drafted
        full = ~rejected & ~made.bare
        kinds = torch.stack([torch.ones_like(rejected), rejected, full, made.fallback], 1)
        depth = torch.arange(self.lookahead, device=self.sums.device)
        at = [depth < length[:, None] for length in (made.drafted, made.accepted)]
        self.sums += torch.cat([kinds, *at], 1) & made.active[:, None]

    def since(self, before: Int64[Tensor, "batch sums"], active: Bool[Tensor, " batch"]) -> Round:
        """Return the round that was added since the sums were `before`."""
        new = self.sums - before
        drafted, accepted = new[:, 4:].view(len(new), 2, -1).sum(2).unbind(1)
        bare = active & (accepted == drafted) & (new[:, 2] == 0)
        return Round(active, drafted, accepted, new[:, 3] > 0, bare)

    def counts(self) -> list[Counts]:
        """Return counts per row."""
        depths = self.lookahead
        return [
            Counts(rounds, at[:depths], at[depths:], residuals, bonuses, fallbacks)
            for rounds, residuals, bonuses, fallbacks, *at in self.sums.tolist()
        ]


def outcomes(rows: BatchState, counts: list[Counts] | None = None) -> list[Outcome]:
    """Collect a finished batch; reads the device a few times, whatever the batch."""
    kept = zip(rows.requests, rows.tokens.tolist(), rows.count.tolist(), strict=True)
    emitted = [(request.id, row[:n]) for request, row, n in kept]
    nothing, stop_ids = len(rows.ends) - 1, set(rows.ends.nonzero()[:-1, 0].tolist())
    return [
        Outcome(
            [token for token in row if token != nothing],
            stopped=row[-1] in stop_ids,
            counts=made,
            failure=failure(id_, len(row) - 1) if row[-1] == nothing else None,
        )
        for (id_, row), made in zip(emitted, counts or repeat(Counts()), strict=False)
    ]
