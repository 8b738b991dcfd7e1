"""A second, smaller language model as the drafter, with its own prompt and cache."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import torch

from speculative_tts.decoding.batch import BatchState, ByRow, Request, Size, lengths_of
from speculative_tts.decoding.drafters.drafter import Laws, PerRow, States, picked, room
from speculative_tts.decoding.drafters.drafts import Drafts
from speculative_tts.decoding.loops.native_steps import SampledSteps, sampled_steps
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.host import readable
from speculative_tts.models.speech_lm import Model
from speculative_tts.native.walk import NativeDrafter
from speculative_tts.schema.drafters import LMDrafterConfig

if TYPE_CHECKING:
    from speculative_tts.decoding.builder import Builder


@dataclass(frozen=True)
class LMDrafter:
    """Drafts token by token with a model of the target's vocabulary.

    With `entropy` up to a token whose distribution has more of it (nats), `lookahead` at most: the
    bound of AdaEDL (Agrawal et al., 2024) on the acceptance of a token falls with its
    distribution's entropy. Where a round's drafts end hangs on the tokens before alone, so the
    output's distribution is the same.
    """

    model: Model
    entropy: float | None = None

    @classmethod
    def build(cls, config: LMDrafterConfig, parts: "Builder") -> Self:
        """Build the drafter of these settings."""
        return cls(parts.draft, config.entropy)

    @property
    def reach(self) -> None:
        """See `Drafter`."""
        return None

    def start(self, size: Size) -> "LMDrafting":
        """See `Drafter`."""
        return LMDrafting(self.model, size, self.entropy)


class LMDrafting(ByRow):
    """One batch's cache. It keeps the newest token out, as the target's does."""

    by_row = ("lengths", "cache")

    def __init__(self, model: Model, size: Size, entropy: float | None = None) -> None:
        self._model, self._entropy = model, entropy
        self.lengths = torch.zeros(size.batch, dtype=torch.int64, device=model.device)
        self.cache = model.cache(size.batch, size.positions)
        self.behind = 1  # tokens the model may not have seen
        self.drafted = torch.zeros_like(self.lengths)

    def load(self, requests: list[Request]) -> None:
        """See `Drafting`."""
        prompts = [r.prompt if r.draft_prompt is None else r.draft_prompt for r in requests]
        self.lengths.copy_(lengths_of(prompts))
        self._model.prefill(prompts, self.cache)

    def propose(self, rows: BatchState, sampler: Sampler, lookahead: int) -> tuple[PerRow, Laws]:
        """See `Drafting`."""
        steps = self.native_steps(sampler)
        if steps is not None:
            wanted = room(rows, lookahead)
            given = rows, wanted, lookahead, self.behind, self._entropy
            self.drafted, laws = steps.draft(*given)
            return self.drafted, laws
        model = self._model
        drafts = Drafts(rows, self.lengths, lookahead, self.behind, self._entropy)
        for number in drafts:
            logits = model.extend(drafts.ids, self.cache, drafts.start)
            drafts.add(sampler, logits[:, 0] if number else picked(logits, drafts.newest))
        self.drafted, laws = drafts.result(model.vocab_size)
        return self.drafted, laws

    def native(self, sampler: Sampler, lookahead: int) -> NativeDrafter | None:  # noqa: ARG002 - any
        """See `Drafting`."""
        steps = self.native_steps(sampler)
        return None if steps is None else steps.native.drafter(self._entropy)

    def native_steps(self, sampler: Sampler) -> SampledSteps | None:
        """Return native steps of the model; None where Python makes them."""
        return sampled_steps(self._model, self.cache, self.lengths, sampler)

    def observe(
        self,
        hidden: States,  # noqa: ARG002 - for drafters that read the target
        accepted: PerRow,
    ) -> None:
        """After full acceptance the model has not seen its own last token: it is fed two then.

        Always, where looking would wait.
        """
        if not readable(accepted):
            self.behind = 2
            return
        full = (accepted == self.drafted) & (accepted > 0)
        self.behind = 2 if bool(full.any()) else 1
