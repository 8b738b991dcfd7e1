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


def outcomes(rows: BatchState, rounds: list[Round], lookahead: int) -> list[Outcome]:
    """Collect a finished batch; reads the device a few times, whatever the batch."""
    kept = zip(rows.requests, rows.tokens.tolist(), rows.count.tolist(), strict=True)
    emitted = [(request.id, row[:n]) for request, row, n in kept]
    nothing, stop_ids = len(rows.ends) - 1, set(rows.ends.nonzero()[:-1, 0].tolist())
    bare = [
        Outcome(
            [token for token in row if token != nothing],
            stopped=row[-1] in stop_ids,
            drafted_per_position=[0] * lookahead,
            accepted_per_position=[0] * lookahead,
            failure=failure(id_, len(row) - 1) if row[-1] == nothing else None,
        )
        for id_, row in emitted
    ]
    return bare if not rounds else _counted(bare, rounds, lookahead)


def _counted(bare: list[Outcome], rounds: list[Round], lookahead: int) -> list[Outcome]:
    """The same with what came of the rounds."""
    active, drafted, accepted, fallback, ended = (
        torch.stack([getattr(r, name) for r in rounds]) for name in Round.__dataclass_fields__
    )
    depth = torch.arange(lookahead, device=active.device)
    rejected = accepted < drafted
    drafted_at, accepted_at = (
        ((depth < length[..., None]) & active[..., None]).sum(0).tolist()
        for length in (drafted, accepted)
    )
    kinds = [active, active & rejected, active & ~rejected & ~ended, active & fallback]
    counts = torch.stack(kinds).sum(1).T.tolist()
    return [
        replace(
            one,
            rounds=counts[row][0],
            drafted_per_position=drafted_at[row],
            accepted_per_position=accepted_at[row],
            residuals=counts[row][1],
            bonuses=counts[row][2],
            residual_fallbacks=counts[row][3],
        )
        for row, one in enumerate(bare)
    ]
