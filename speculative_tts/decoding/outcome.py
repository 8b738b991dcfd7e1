"""What a decoding loop returns: tokens and raw counts per row. Ratios are taken when scores are aggregated."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from speculative_tts.decoding.batch import Rows


@dataclass(frozen=True)
class Round:
    """One draft and verification of all rows; each tensor is [batch]."""

    active: Tensor  # was the row still running
    drafted: Tensor
    accepted: Tensor
    fallback: Tensor
    bare: Tensor  # no token after the accepted ones, because they end with a stop id


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

    @property
    def drafted(self) -> int:
        """Drafted tokens that were verified."""
        return sum(self.drafted_per_position)

    @property
    def accepted(self) -> int:
        """Accepted tokens, after the cut at the first stop id."""
        return sum(self.accepted_per_position)


def outcomes(rows: Rows, rounds: list[Round], lookahead: int) -> list[Outcome]:
    """Collect a finished batch; reads the device once."""
    lengths = rows.count.tolist()
    tokens = [row[:n] for row, n in zip(rows.tokens.tolist(), lengths, strict=True)]
    stopped = [bool(rows.stop.is_stop[row[-1]]) for row in tokens]
    if not rounds:
        return [Outcome(t, s) for t, s in zip(tokens, stopped, strict=True)]
    active, drafted, accepted, fallback, bare = (
        torch.stack([getattr(r, name) for r in rounds]) for name in Round.__dataclass_fields__
    )
    depth = torch.arange(lookahead, device=active.device)
    drafted_at = ((depth < drafted[..., None]) & active[..., None]).sum(0).tolist()
    accepted_at = ((depth < accepted[..., None]) & active[..., None]).sum(0).tolist()
    rejected = accepted < drafted
    return [
        Outcome(
            tokens=tokens[row],
            stopped=stopped[row],
            rounds=int(active[:, row].sum()),
            drafted_per_position=drafted_at[row],
            accepted_per_position=accepted_at[row],
            residuals=int((active & rejected)[:, row].sum()),
            bonuses=int((active & ~rejected & ~bare)[:, row].sum()),
            residual_fallbacks=int((active & fallback)[:, row].sum()),
        )
        for row in range(len(tokens))
    ]
