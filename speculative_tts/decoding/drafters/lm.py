"""A second, smaller language model as the drafter, with its own prompt and cache."""

from copy import copy
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from speculative_tts.decoding.batch import BatchState, Request, Size, lengths_of
from speculative_tts.decoding.drafters.drafter import Laws, PerRow, States, most, room
from speculative_tts.decoding.loops.native_steps import Walking, walking
from speculative_tts.decoding.rules.acceptance import entropy
from speculative_tts.decoding.sampling.randomness import DRAFT, draw
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.host import readable
from speculative_tts.models.speech_lm import Model
from speculative_tts.native.walk import Drafter


@dataclass(frozen=True)
class LMDrafter:
    """Drafts token by token with a model of the target's vocabulary.

    With `entropy` up to a token whose law has more of it (nats), `lookahead` at most: the bound of
    AdaEDL (Agrawal et al., 2024) on the acceptance of a token falls with its law's entropy. Where a
    round's drafts end hangs on the tokens before alone, so the output's law is the same.
    """

    model: Model
    entropy: float | None = None

    @property
    def reach(self) -> None:
        """See `Drafter`."""
        return None

    def start(self, size: Size) -> "LMDrafting":
        """See `Drafter`."""
        return LMDrafting(self.model, size, self.entropy)


class LMDrafting:
    """One batch's cache. It keeps the newest token out, as the target's does."""

    def __init__(self, model: Model, size: Size, entropy: float | None = None) -> None:
        self._model, self._entropy = model, entropy
        self._lengths = torch.zeros(size.batch, dtype=torch.int64, device=model.device)
        self._cache = model.cache(size.batch, size.positions)
        self._behind = 1  # tokens the model may not have seen
        self._drafted = torch.zeros_like(self._lengths)

    def load(self, requests: list[Request]) -> None:
        """See `Drafting`."""
        prompts = [r.prompt if r.draft_prompt is None else r.draft_prompt for r in requests]
        self._lengths.copy_(lengths_of(prompts))
        self._model.prefill(prompts, self._cache)

    def row(self, index: int) -> "LMDrafting":
        """See `Drafting`."""
        one = copy(self)
        one._lengths = self._lengths[index : index + 1]
        one._cache = self._cache.row(index)
        return one

    def propose(self, rows: BatchState, sampler: Sampler, lookahead: int) -> tuple[PerRow, Laws]:
        """See `Drafting`."""
        model, drafted = self._model, room(rows, lookahead)
        walk = self.walking(sampler)
        if walk is not None:
            self._drafted, laws_of_all = walk.draft(rows, drafted, lookahead, self._behind)
            return self._drafted, laws_of_all
        positions = rows.positions(lookahead)
        laws: list[Tensor] = []
        token = rows.last(1)
        while len(laws) < most(drafted, lookahead):
            position = positions[:, len(laws), None]
            start = self._lengths + position[:, 0] - 1
            ids = token.clamp(max=model.vocab_size - 1)
            logits = model.extend(ids, self._cache, start) if laws else self._first(rows)
            laws.append(sampler(logits, rows.tokens, position, rows.stop))
            token = draw(laws[-1], rows.uniform(position, DRAFT))
            rows.tokens.scatter_(1, position, token)
            stopped = rows.ends[token[:, 0]] | self._doubtful(laws[-1])
            drafted = torch.where(stopped, drafted.clamp(max=len(laws)), drafted)
        self._drafted = drafted
        empty = torch.zeros(len(drafted), 0, model.vocab_size, device=drafted.device)
        return drafted, torch.cat(laws, 1) if laws else empty

    def _doubtful(self, law: Laws) -> Bool[Tensor, " batch"]:
        """Is a token of this law the last one to draft?"""
        if self._entropy is None:
            return law.new_zeros(len(law), dtype=torch.bool)
        return entropy(law[:, 0]) > self._entropy

    def native(self, sampler: Sampler, lookahead: int) -> Drafter | None:  # noqa: ARG002 - any
        """The same natively."""
        walk = self.walking(sampler)
        return None if walk is None else walk.walk.drafter()

    def walking(self, sampler: Sampler) -> Walking | None:
        """One round's drafts natively; it does not look at entropies."""
        if self._entropy is not None:
            return None
        return walking(self._model, self._cache, self._lengths, sampler)

    def _first(self, rows: BatchState) -> Tensor:
        """Feeds the newest `behind` tokens, of a row that has fewer something behind them."""
        start = self._lengths + (rows.count - self._behind).clamp(min=0)
        logits = self._model.extend(rows.last(self._behind), self._cache, start)
        newest = (rows.count - 1).clamp(max=self._behind - 1)
        return logits[torch.arange(len(newest), device=newest.device), newest][:, None]

    def saw(
        self,
        hidden: States,  # noqa: ARG002 - for drafters that read the target
        accepted: PerRow,
    ) -> None:
        """After full acceptance the model has not seen its own last token: it is fed two then.

        Always, where looking would wait.
        """
        full = (accepted == self._drafted) & (accepted > 0)
        self._behind = 2 if not readable(full) or bool(full.any()) else 1
