"""Tokens one by one in one native call, where model and sampler allow it.

The loops in Python say what happens (`loops.Autoregression`, `drafters.lm`, `speculation.Rounds`);
here it happens without returning to Python between two tokens. The tokens are the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int64
from torch import Tensor

from speculative_tts.decoding.batch import BatchState
from speculative_tts.decoding.outcome import Tally
from speculative_tts.decoding.sampling.randomness import DRAFT, NEXT
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler, settings_of
from speculative_tts.native import sample
from speculative_tts.native.blocks import Heads, Search, blocks
from speculative_tts.native.verify import Rule
from speculative_tts.native.walk import Batch, Drafter, Rounds, Walk, Walkable, emit

SAMPLERS = (Sampler, RepetitionAware)  # whose laws are native throughout

PerRow = Int64[Tensor, " batch"]


@dataclass(frozen=True)
class Walking:
    """One model with its cache of one batch, and the sampler of its tokens."""

    walk: Walk
    sampler: Sampler

    def draft(
        self, rows: BatchState, wanted: PerRow, lookahead: int, behind: int
    ) -> tuple[PerRow, Float[Tensor, "batch drafted vocab"]]:
        """As `LMDrafting.propose`: how many tokens count in each row, and their laws."""
        steps = min(int(wanted.max()), lookahead)
        batch = batch_of(rows, self.sampler)
        return self.walk.draft(batch, wanted, steps=steps, behind=behind, purpose=DRAFT)

    def emit(self, rows: BatchState, number: int) -> None:
        """As `loops.Autoregression.step`, so many times."""
        self.walk.emit(batch_of(rows, self.sampler), steps=number, purpose=NEXT)

    def rounds(
        self,
        drafter: Drafter,
        rows: BatchState,
        tally: Tally,
        rule: Rule,
        *,
        watched: bool,
    ) -> Rounds:
        """As `speculation.Rounds.step`, so many times, this model verifying by the rule."""
        given = (self.walk, drafter, batch_of(rows, self.sampler), tally.sums)
        return Rounds(*given, rule=rule, lookahead=tally.lookahead, watched=watched)

    def blocks(
        self, rows: BatchState, heads: Heads, search: Search | None, made: PerRow, dead: PerRow
    ) -> Callable[[int], None]:
        """As `multi_token.Blocks.step`, so many times; by the sampler without a search."""
        batch = batch_of(rows, self.sampler)
        return blocks(self.walk, batch, heads, search, made, dead)


def batch_of(rows: BatchState, sampler: Sampler) -> Batch:
    """What native calls see and change of rows."""
    stop, barred = rows.stop, sampler.barred_of(rows.stop)
    places = sample.Places(rows.tokens, rows.count, stop.minimum, stop.is_stop, barred)
    state = (rows.tokens, rows.uniforms, rows.again, rows.count, rows.limit, rows.done, rows.ends)
    return Batch(*state, places, settings_of(sampler))


def emitted(rows: BatchState, sampler: Sampler, logits: Float[Tensor, "batch 1 vocab"]) -> bool:
    """As `loops.emit_one`, if that is one native call; else nothing and False."""
    if type(sampler) not in SAMPLERS or not sample.runs(logits):
        return False
    emit(batch_of(rows, sampler), logits)
    return True


def walking(model: object, cache: Any, lengths: PerRow, sampler: Sampler) -> Walking | None:
    """None where tokens are made one by one in Python."""
    if type(sampler) not in SAMPLERS or not isinstance(model, Walkable):
        return None
    walk = model.walk(cache, lengths)
    return None if walk is None else Walking(walk, sampler)
