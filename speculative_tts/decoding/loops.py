"""Decoding token by token: with a cache, and the slow way that some papers compare with.

The newest token stays out of the cache; `start` of an `extend` is where it goes.
"""

from collections import deque
from collections.abc import Iterator

import torch

from speculative_tts.decoding.batch import BatchState, Request, lengths_of
from speculative_tts.decoding.outcome import Outcome, outcomes
from speculative_tts.decoding.randomness import NEXT, draw
from speculative_tts.decoding.sampling import Sampler
from speculative_tts.decoding.walking import walking
from speculative_tts.models.speech_lm import Model, PromptedModel


def autoregressive(
    model: Model, stop_ids: tuple[int, ...], sampler: Sampler, requests: list[Request]
) -> list[Outcome]:
    """One token a step.

    The baseline of every speedup, and with the draft as the model the "draft alone" row.
    """
    if not requests:
        return []
    (rows,) = deque(steps(model, stop_ids, sampler, requests, whole=True), maxlen=1)
    return outcomes(rows, [], 0)


@torch.inference_mode()
def steps(
    model: Model,
    stop_ids: tuple[int, ...],
    sampler: Sampler,
    requests: list[Request],
    *,
    whole: bool = False,
) -> Iterator[BatchState]:
    """The rows after each token, if `whole` after the last alone; the same object each time."""
    rows = BatchState(requests, stop_ids, model.vocab_size, slack=0)
    prompts = [r.prompt for r in requests]
    lengths = lengths_of(prompts)
    cache = model.cache(len(prompts), int(lengths.max()) + rows.capacity)
    none = torch.zeros_like(rows.count)
    logits = model.prefill(prompts, cache)[:, None]
    walk = walking(model, cache, lengths, sampler) if whole else None
    while True:
        positions = rows.positions(1)
        probs = sampler(logits, rows.tokens, positions, rows.stop)
        rows.emit(none, draw(probs, rows.uniform(positions, NEXT))[:, 0])
        if walk is not None and not rows.finished:
            walk.finish(rows, sampler)
        yield rows
        if rows.finished:
            return
        logits = model.extend(rows.last(1), cache, lengths + rows.count - 1)


@torch.inference_mode()
def uncached(
    model: PromptedModel, stop_ids: tuple[int, ...], sampler: Sampler, requests: list[Request]
) -> list[Outcome]:
    """One token a step by one pass over the prompt and all tokens so far, computed anew.

    The baseline of papers whose models keep no keys and values; its tokens are `autoregressive`'s.
    """
    if not requests:
        return []
    rows = BatchState(requests, stop_ids, model.vocab_size, slack=0)
    prompts = [r.prompt for r in requests]
    cache = model.cache(len(prompts), int(lengths_of(prompts).max()) + rows.capacity)
    none = torch.zeros_like(rows.count)
    whole = prompts
    while True:
        positions = rows.positions(1)
        logits = model.prefill(whole, cache)[:, None]
        probs = sampler(logits, rows.tokens, positions, rows.stop)
        rows.emit(none, draw(probs, rows.uniform(positions, NEXT))[:, 0])
        if rows.finished:
            return outcomes(rows, [], 0)
        newest = rows.last(1)  # rows that are done feed anything
        whole = [model.append(row, ids) for row, ids in zip(whole, newest, strict=True)]
