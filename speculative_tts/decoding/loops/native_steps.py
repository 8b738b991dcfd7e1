"""Run steps of the decoding loops in one native call, where model and sampler allow it.

The loops in Python say what happens (`one_by_one.Autoregression`, `drafters.lm`,
`speculation.Rounds`); here it happens without returning to Python between two tokens. The tokens
are the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int64
from torch import Tensor

from speculative_tts.decoding.batch import BatchState
from speculative_tts.decoding.outcome import Tally
from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.randomness import DRAFT, NEXT
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler, settings_of
from speculative_tts.native import sample
from speculative_tts.native.blocks import NativeHeads, Search, blocks
from speculative_tts.native.verify import Rule
from speculative_tts.native.walk import (
    Batch,
    HasNativeSteps,
    NativeDrafter,
    NativeRounds,
    NativeSteps,
    emit,
)

# whose distributions are native throughout
SAMPLERS = (Sampler, RepetitionAware, RepetitionPenalty)

PerRow = Int64[Tensor, " batch"]


@dataclass(frozen=True)
class SampledSteps:
    """One model with its cache of one batch, and the sampler of its tokens."""

    native: NativeSteps
    sampler: Sampler

    def draft(
        self,
        rows: BatchState,
        wanted: PerRow,
        lookahead: int,
        behind: int,
        doubt: float | None = None,
    ) -> tuple[PerRow, Float[Tensor, "batch drafted vocab"]]:
        """Do `LMDrafting.propose`: return tokens that count per row, and their distributions."""
        steps = min(int(wanted.max()), lookahead)
        batch = batch_of(rows, self.sampler)
        return self.native.draft(
            batch, wanted, steps=steps, behind=behind, purpose=DRAFT, doubt=doubt
        )

    def emit(self, rows: BatchState, number: int) -> None:
        """Run `number` steps of `one_by_one.Autoregression` in one native call."""
        self.native.emit(batch_of(rows, self.sampler), steps=number, purpose=NEXT)

    def rounds(
        self, drafter: NativeDrafter, rows: BatchState, tally: Tally, rule: Rule, *, watched: bool
    ) -> NativeRounds:
        """Return native rounds of `speculation.Rounds`; this model verifies by the rule."""
        given = (self.native, drafter, batch_of(rows, self.sampler), tally.sums)
        made = NativeRounds(*given, rule=rule, lookahead=tally.lookahead)
        if watched:
            made.watch()
        return made

    def blocks(
        self,
        rows: BatchState,
        heads: NativeHeads,
        search: Search | None,
        made: PerRow,
        dead: PerRow,
    ) -> Callable[[int], None]:
        """Return native steps of `multi_token.Blocks`; without a search the sampler draws."""
        batch = batch_of(rows, self.sampler)
        return blocks(self.native, batch, heads, search, made, dead)


def batch_of(rows: BatchState, sampler: Sampler) -> Batch:
    """Return the view of rows that native calls read and change."""
    stop, barred = rows.stop, sampler.barred_of(rows.stop)
    given = (stop.minimum, stop.is_stop, barred, stop.prompted)
    places = sample.Places(rows.tokens, rows.count, *given)
    state = (rows.tokens, rows.uniforms, rows.again, rows.count, rows.limit, rows.done, rows.ends)
    return Batch(*state, places, settings_of(sampler))


def emitted(rows: BatchState, sampler: Sampler, logits: Float[Tensor, "batch 1 vocab"]) -> bool:
    """Do `one_by_one.emit_one` in one native call; False if it is not native."""
    if type(sampler) not in SAMPLERS or not sample.runs(logits):
        return False
    emit(batch_of(rows, sampler), logits)
    return True


def sampled_steps(
    model: object, cache: Any, lengths: PerRow, sampler: Sampler
) -> SampledSteps | None:
    """Return native steps of a model; None where Python makes its tokens one by one."""
    if type(sampler) not in SAMPLERS or not isinstance(model, HasNativeSteps):
        return None
    steps = model.native_steps(cache, lengths)
    return None if steps is None else SampledSteps(steps, sampler)
