"""Tokens one by one in one native call, where model and sampler allow it.

The loops in Python say what happens (`loops.steps`, `drafters.lm`); here it happens without
returning to Python between two tokens. The tokens are the same.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from speculative_tts.decoding.batch import BatchState
from speculative_tts.decoding.randomness import DRAFT, NEXT
from speculative_tts.decoding.ras import RepetitionAware
from speculative_tts.decoding.sampling import Sampler, settings_of
from speculative_tts.models.code_lm import CodeLM
from speculative_tts.models.native.sample import Places
from speculative_tts.models.native.step import PackedCache
from speculative_tts.models.native.walk import Batch, Walker

SAMPLERS = (Sampler, RepetitionAware)  # whose laws are native throughout


@dataclass(frozen=True)
class Walking:
    """One model with its cache of one batch; lengths: int64 [batch], of its prompts."""

    walker: Walker
    turns: Tensor
    cache: PackedCache
    lengths: Tensor

    def draft(
        self, rows: BatchState, sampler: Sampler, wanted: Tensor, behind: int
    ) -> tuple[Tensor, Tensor]:
        """As `LMDrafting.propose`: how many tokens count in each row, and their laws."""
        most = wanted.clone()
        laws = self.walker.draft(
            self.cache,
            self.turns,
            settings_of(sampler),
            _places(rows, sampler),
            self._batch(rows, most),
            steps=int(most.max()),
            behind=behind,
            purpose=DRAFT,
        )
        return most, laws

    def emit(self, rows: BatchState, sampler: Sampler, number: int) -> None:
        """As `loops.steps`, the next `number` tokens of each row."""
        most = torch.where(rows.done, 0, rows.limit - rows.count).clamp(max=number)
        self.walker.emit(
            self.cache,
            self.turns,
            settings_of(sampler),
            _places(rows, sampler),
            self._batch(rows, most),
            steps=int(most.max()),
            purpose=NEXT,
        )
        rows.grown()

    def _batch(self, rows: BatchState, most: Tensor) -> Batch:
        return Batch(rows.tokens, rows.uniforms, self.lengths, rows.count, most, rows.ends)


def walking(model: object, cache: Any, lengths: Tensor, sampler: Sampler) -> Walking | None:
    """None where tokens are made one by one in Python."""
    if type(sampler) not in SAMPLERS or not isinstance(cache, PackedCache):
        return None
    walker = model.walker() if isinstance(model, CodeLM) else None
    if walker is None or not isinstance(model, CodeLM):
        return None
    return Walking(walker, model.decoder.turns, cache, lengths)


def _places(rows: BatchState, sampler: Sampler) -> Places:
    stop = rows.stop
    barred = sampler.barred_of(stop)
    return Places(rows.tokens, rows.count, stop.minimum, stop.is_stop, barred)
