"""A second, smaller language model as the drafter, with its own prompt and cache."""

from dataclasses import dataclass

import torch
from torch import Tensor

from speculative_tts.decoding.batch import BatchState, Request, lengths_of
from speculative_tts.decoding.drafters.drafter import Laws, PerRow, States, most, room
from speculative_tts.decoding.randomness import DRAFT, draw
from speculative_tts.decoding.sampling import Sampler
from speculative_tts.decoding.walking import walking
from speculative_tts.models.speech_lm import Model


@dataclass(frozen=True)
class LMDrafter:
    """Drafts token by token with a model of the target's vocabulary."""

    model: Model

    def start(self, requests: list[Request], capacity: int) -> "LMDrafting":
        """See `Drafter`."""
        return LMDrafting(self.model, requests, capacity)


class LMDrafting:
    """One batch's cache. It keeps the newest token out, as the target's does."""

    def __init__(self, model: Model, requests: list[Request], capacity: int) -> None:
        prompts = [r.prompt if r.draft_prompt is None else r.draft_prompt for r in requests]
        self._model = model
        self._lengths = lengths_of(prompts)
        self._cache = model.cache(len(prompts), int(self._lengths.max()) + capacity)
        model.prefill(prompts, self._cache)
        self._behind = 1  # tokens the model has not seen
        self._drafted = torch.zeros_like(self._lengths)

    def propose(self, rows: BatchState, sampler: Sampler, lookahead: int) -> tuple[PerRow, Laws]:
        """See `Drafting`. The first step feeds the last `behind` tokens of every row."""
        model, drafted = self._model, room(rows, lookahead)
        walk = walking(model, self._cache, self._lengths, sampler)
        if walk is not None:
            self._drafted, laws_of_all = walk.draft(rows, sampler, drafted, self._behind)
            return self._drafted, laws_of_all
        steps = most(drafted, lookahead)
        ids, start = rows.last(self._behind), self._lengths + rows.count - self._behind
        positions = rows.positions(lookahead)
        laws: list[Tensor] = []
        while len(laws) < steps:
            position = positions[:, len(laws), None]
            logits = model.extend(ids, self._cache, start, keep=1)
            law = sampler(logits, rows.tokens, position, rows.stop)
            start = start + ids.shape[1]
            token = draw(law, rows.uniform(position, DRAFT))
            rows.tokens.scatter_(1, position, token)
            ids = token.clamp(max=model.vocab_size - 1)
            laws.append(law)
            stopped = rows.ends[token[:, 0]]
            if stopped.device.type != "cpu" or stopped.any():
                drafted = torch.where(stopped, drafted.clamp(max=len(laws)), drafted)
                steps = most(drafted, lookahead)
        self._drafted = drafted
        empty = torch.zeros(len(drafted), 0, model.vocab_size, device=drafted.device)
        return drafted, torch.cat(laws, 1) if laws else empty

    def saw(
        self,
        hidden: States,  # noqa: ARG002 - for drafters that read the target
        accepted: PerRow,
    ) -> None:
        """After full acceptance the model has not seen its own last token: it is fed two then.

        On a GPU always, where looking would wait.
        """
        full = (accepted == self._drafted) & (accepted > 0)
        self._behind = 2 if full.device.type != "cpu" or bool(full.any()) else 1
