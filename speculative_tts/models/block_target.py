"""A target that keeps what a block drafter reads of it, position by position, beside its cache."""

from dataclasses import dataclass

import torch
from torch import Tensor

from speculative_tts.models.block_draft import BlockDraft
from speculative_tts.models.decoder.cache import Cache, KVCache
from speculative_tts.models.decoder.taps import Taps
from speculative_tts.models.families.code_lm import CodeLM
from speculative_tts.models.speech_lm import FromStates


@dataclass(frozen=True)
class BlockCache:
    """A target's keys and values, and those of a block drafter at the same positions."""

    target: Cache
    context: KVCache

    def row(self, index: int) -> "BlockCache":
        """One row as a cache of batch 1 in the same tensors."""
        return BlockCache(self.target.row(index), self.context.row(index))

    def clear(self) -> None:
        """Forget the batch before."""
        self.target.clear()
        self.context.clear()


class BlockTarget(FromStates):
    """Runs a target; each pass also stores the drafter's keys and values of its positions."""

    def __init__(self, model: CodeLM, draft: BlockDraft) -> None:
        self._model, self._draft = model, draft
        self.vocab_size, self.device, self.logits = model.vocab_size, model.device, model.logits

    def cache(self, batch: int, capacity: int) -> BlockCache:
        """See `Model`."""
        return BlockCache(self._model.cache(batch, capacity), self._draft.cache(batch, capacity))

    def prefill_hidden(self, prompts: list[Tensor], cache: BlockCache) -> Tensor:
        """See `HiddenModel`; a row at a time."""
        cache.clear()
        zero = torch.zeros(1, dtype=torch.int64, device=self.device)
        rows = enumerate(prompts)
        return torch.cat([self._run(one[None], cache.row(i), zero, 1)[:, -1] for i, one in rows])

    def extend_hidden(
        self, ids: Tensor, cache: BlockCache, start: Tensor, keep: int | None = None
    ) -> Tensor:
        """See `HiddenModel`."""
        return self._run(self._model.embed(ids), cache, start, keep)

    def _run(self, inputs: Tensor, cache: BlockCache, start: Tensor, keep: int | None) -> Tensor:
        taps = Taps(self._draft.config.read)
        hidden = self._model.decoder.extend(inputs, cache.target, start, keep, taps)
        self._draft.observe(taps.joined(len(inputs)), cache.context, start)
        return hidden
