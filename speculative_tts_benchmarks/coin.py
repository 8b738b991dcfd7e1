"""Exact speculation in which a coin decides which drafted tokens pass.

Random weights say nothing of how often a draft is right, so a benchmark sets it. All else is
computed as for a trained draft: the rule reads its distributions, residuals are drawn.
"""

from dataclasses import dataclass, field, replace

import torch

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.loops.graphs import LoopSpec
from speculative_tts.decoding.loops.observer import Observer
from speculative_tts.decoding.loops.speculation import Rounds, Speculation
from speculative_tts.decoding.sampling.randomness import ACCEPT

PASSES, FAILS = -1.0, float("inf")  # as a uniform u, of which u draft < target is asked


@dataclass(frozen=True)
class TossedSpeculation(Speculation):
    """Speculation by the exact rule; each position passes with probability `rate`."""

    rate: float = field(kw_only=True)

    def looping(self, observer: Observer | None = None) -> LoopSpec[Rounds]:
        """See `Speculation`; a loop that is kept is of its rate."""
        spec, watch = super().looping(observer), observer or Observer()
        key = (spec.key, self.rate)
        return replace(spec, make=lambda size: TossedRounds(self, size, watch), key=key)


class TossedRounds(Rounds):
    """Rounds whose uniforms of acceptance were replaced by tosses."""

    def load(self, requests: list[Request]) -> None:
        """See `Rounds`."""
        super().load(requests)
        assert isinstance(self._speculation, TossedSpeculation)
        uniform = self.rows.uniforms[..., ACCEPT]
        uniform.copy_(torch.where(uniform < self._speculation.rate, PASSES, FAILS))
