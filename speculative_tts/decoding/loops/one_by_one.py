"""Decoding token by token: with a cache, and the slow way that some papers compare with.

The newest token stays out of the cache; `start` of an `extend` is where it goes.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from speculative_tts.decoding.batch import BatchState, ByRow, Request, Size
from speculative_tts.decoding.gpu import rounds
from speculative_tts.decoding.gpu.launch import runs
from speculative_tts.decoding.loops.graphs import EAGER, Graphs, LoopSpec
from speculative_tts.decoding.loops.native_steps import emitted, sampled_steps
from speculative_tts.decoding.outcome import Outcome, outcomes
from speculative_tts.decoding.sampling.randomness import NEXT, draw
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.speech_lm import Model, PromptedModel

SEVERAL = 4  # tokens between two looks at which rows are done


def autoregressive(
    model: Model,
    stop_ids: tuple[int, ...],
    sampler: Sampler,
    requests: list[Request],
    graphs: Graphs = EAGER,
) -> list[Outcome]:
    """Decode a batch, one token a step.

    The baseline of every speedup, and with the draft as the model the "draft alone" row.
    """
    return graphs.decode(alone(model, stop_ids, sampler), requests)


def alone(model: Model, stop_ids: tuple[int, ...], sampler: Sampler) -> "LoopSpec[Autoregression]":
    """Return the recipe of the loop that decodes with one model, token by token."""
    return LoopSpec(
        lambda size: Autoregression(model, stop_ids, sampler, size),
        slack=0,
        key=(id(model), stop_ids, sampler),
        several=SEVERAL,
    )


class Autoregression(ByRow):
    """Token by token (a `graphs.Loop`)."""

    by_row = ("rows", "_cache")

    def __init__(
        self, model: Model, stop_ids: tuple[int, ...], sampler: Sampler, size: Size
    ) -> None:
        self.rows = BatchState(size, stop_ids, model.vocab_size, model.device)
        self._model, self._sampler = model, sampler
        self._cache = model.cache(size.batch, size.positions)

    def load(self, requests: list[Request]) -> None:
        """See `Loop`."""
        self.rows.load(requests)
        logits = self._model.prefill([r.prompt for r in requests], self._cache)
        emit_one(self.rows, self._sampler, logits[:, None])

    def step(self) -> None:
        """See `Loop`."""
        fed = self.rows.inputs(self.rows.lengths, behind=1)
        logits = self._model.extend(fed.ids, self._cache, fed.start)
        emit_one(self.rows, self._sampler, logits, fed.positions)

    def run_native(self, number: int) -> bool:
        """See `Loop`."""
        steps = sampled_steps(self._model, self._cache, self.rows.lengths, self._sampler)
        if steps is not None:
            steps.emit(self.rows, number)
        return steps is not None

    def outcomes(self) -> list[Outcome]:
        """See `Loop`."""
        return outcomes(self.rows)


def emit_one(
    rows: BatchState,
    sampler: Sampler,
    logits: Float[Tensor, "batch 1 vocab"],
    positions: Int64[Tensor, "batch 1"] | None = None,
) -> None:
    """Emit a token of each row by its logits; `positions` are by default those that `rows` has."""
    if emitted(rows, sampler, logits):
        return
    positions = rows.positions(1) if positions is None else positions
    probs = sampler(logits, rows.tokens, positions, rows.stop)
    if runs(probs):
        rounds.emit(rows, probs[:, 0])
        return
    rows.emit(torch.zeros_like(rows.count), draw(probs, rows.uniform(positions, NEXT))[:, 0])


@torch.inference_mode()
def uncached(
    model: PromptedModel, stop_ids: tuple[int, ...], sampler: Sampler, requests: list[Request]
) -> list[Outcome]:
    """Decode a batch by a pass over the prompt and all tokens so far for each token.

    The baseline of papers whose models keep no keys and values; its tokens are `autoregressive`'s.
    """
    if not requests:
        return []
    size = Size.of(requests, slack=0)
    rows = BatchState.of(requests, stop_ids, model.vocab_size, slack=0)
    cache = model.cache(size.batch, size.positions)
    whole = [r.prompt for r in requests]
    while True:
        emit_one(rows, sampler, model.prefill(whole, cache)[:, None])
        if rows.finished:
            return outcomes(rows)
        going = zip(whole, rows.last(1), rows.done.tolist(), strict=True)
        whole = [row if done else model.append(row, ids) for row, ids, done in going]
