"""Run a prompt that many rows of a batch share once, and copy what it left in the cache.

A statistical test decodes thousands of rows that differ in their uniforms alone; their prompts took
most of its time. Rows are run one at a time, so that each holds what it would have computed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest
from torch import Tensor

from speculative_tts.models.block_target import BlockCache, BlockTarget
from speculative_tts.models.families.code_lm import CodeLM
from speculative_tts.native.step import SLACK, PackedCache


@contextmanager
def shared_prompts() -> Iterator[None]:
    """Let models run a prompt once for all rows of a batch, if it is one and the same tensor."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in (CodeLM, BlockTarget):
            patch.setattr(kind, "prefill_hidden", once(kind.prefill_hidden))
        yield


def once(run: Callable[[Any, list[Tensor], Any], Tensor]) -> Callable[..., Tensor]:
    """Return `prefill_hidden` for one row, whose cache is copied to all other rows."""

    @wraps(run)
    def prefill_hidden(model: Any, prompts: list[Tensor], cache: Any) -> Tensor:
        if any(prompt is not prompts[0] for prompt in prompts):
            return run(model, prompts, cache)
        cache.clear()
        first = run(model, prompts[:1], cache.row(0))
        decoder = model.decoder if isinstance(model, CodeLM) else model._model.decoder
        for rows in stored(cache, decoder.config.layers):
            rows[:, 1:] = rows[:, :1]
        return first.expand(len(prompts), -1).contiguous()

    return prefill_hidden


def stored(cache: Any, layers: int) -> list[Tensor]:
    """Return what a cache keeps, as views of [layers, rows, ...]."""
    if isinstance(cache, BlockCache):
        return stored(cache.target, layers) + stored(cache.context, layers)
    if isinstance(cache, PackedCache):
        return [cache.storage[:-SLACK].view(layers, cache.rows, -1)]
    return [*cache.storage.unbind(1)]
