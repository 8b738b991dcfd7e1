"""n tokens a pass: heads on the target's hidden state, and a choice among their predictions.

Multi-token prediction (Nguyen et al., 2025, arXiv 2410.13839). Nothing is verified: the law is not
the target's, unless n = 1. A block is chosen from each head by itself, or by path search
(`decoding.viterbi`). Where a block ends the utterance:

- own choices: at the first stop id, as in any loop;
- best path: before the first head whose likeliest token is a stop id (the paper says nothing);
- sampled path: head i says how probable it is that the utterance has ended by its token (heads are
  trained to repeat the stop id behind the end), so one uniform per block is compared with each.
"""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from speculative_tts.decoding.batch import Model, Request, Rows
from speculative_tts.decoding.outcome import Outcome, outcomes
from speculative_tts.decoding.randomness import ACCEPT, NEXT, draw
from speculative_tts.decoding.sampling import Sampler, StopRule
from speculative_tts.decoding.transitions import IMPOSSIBLE
from speculative_tts.decoding.viterbi import PathSearch
from speculative_tts.models.heads import Heads


class HiddenModel(Model, Protocol):
    """A model that also gives the hidden states its heads read."""

    def prefill_hidden(self, prompts: list[Tensor], cache: Any) -> Tensor:
        """Run the prompts; final hidden states of their last positions, [batch, hidden]."""
        ...

    def extend_hidden(
        self, ids: Tensor, cache: Any, start: Tensor, keep: int | None = None
    ) -> Tensor:
        """Feed ids [batch, new]; final hidden states of the last `keep`, [batch, keep, hidden]."""
        ...


@dataclass(frozen=True)
class Block:
    """Tokens [batch, n], a stop id where the utterance ends, and dead lattices [batch]."""

    tokens: Tensor
    dead: Tensor | None = None


class Own:
    """Each token from its own head by the target's sampler (greedy at temperature 0)."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def __call__(self, logits: Tensor, rows: Rows) -> Block:
        """logits: float32 [batch, n, vocab]. Heads do not see the tokens of the block."""
        positions = rows.positions(logits.shape[1])
        probs = self._sampler(logits, rows.tokens, positions, rows.stop)
        return Block(draw(probs, rows.uniform(positions, NEXT)))


class Searched:
    """A path through the heads' candidates, the best one or one drawn; see the module."""

    def __init__(
        self, search: PathSearch, stop: StopRule, *, temperature: float, sample: bool
    ) -> None:
        if not temperature > 0:
            raise ValueError(f"viterbi.temperature {temperature} is not above 0; 1 is plain")
        self._search, self._temperature, self._sample = search, temperature, sample
        self._stop_ids = stop.is_stop.nonzero()[:, 0]
        self._bar = torch.where(stop.is_stop, IMPOSSIBLE, 0.0)  # no path goes through a stop id

    def __call__(self, logits: Tensor, rows: Rows) -> Block:
        """logits: float32 [batch, n, vocab]."""
        n, stop = logits.shape[1], rows.stop
        positions = rows.positions(n)
        logits = stop.mask(logits, positions)
        if self._temperature != 1:
            logits = logits / self._temperature
        scores = logits + self._bar
        last = rows.last(1)[:, 0]
        if self._sample:
            kept, ids = logits.topk(min(self._search.top_k, logits.shape[-1]), -1)
            path = self._search.sample(scores, ids, last, rows.uniform(positions, NEXT))
            over = (kept.softmax(-1) * stop.is_stop[ids]).sum(-1)
            ends = rows.uniform(positions[:, :1], ACCEPT) >= 1 - over
        else:
            path = self._search.best(scores, last)
            ends = stop.is_stop[logits.argmax(-1)]
        if not len(self._stop_ids):
            return Block(path.tokens, path.dead)
        likeliest = self._stop_ids[logits[..., self._stop_ids].argmax(-1)]
        return Block(torch.where(ends, likeliest, path.tokens), path.dead)


Chooser = Own | Searched


@torch.inference_mode()
def multi_token(
    model: HiddenModel,
    heads: Heads,
    choose: Chooser,
    stop_ids: tuple[int, ...],
    requests: list[Request],
) -> list[Outcome]:
    """One pass of the trunk for every block of heads.n tokens; nothing waits for the device.

    A block is cut behind its first stop id and at the length limit.
    """
    rows = Rows(requests, stop_ids, heads.vocab_size, slack=heads.n)
    prompts = [r.prompt for r in requests]
    lengths = torch.tensor([len(p) for p in prompts], device=model.device)
    cache = model.cache(len(prompts), int(lengths.max()) + rows.capacity)
    hidden = model.prefill_hidden(prompts, cache)
    blocks, dead = torch.zeros_like(rows.count), torch.zeros_like(rows.count)
    while True:
        block = choose(heads(hidden), rows)
        blocks += ~rows.done
        if block.dead is not None:
            dead += block.dead & ~rows.done
        rows.commit(block.tokens)
        if rows.finished:
            return _outcomes(rows, blocks, dead)
        # Rows that are done feed anything; the others took all n tokens.
        start = (lengths + rows.count - heads.n).clamp(min=0)
        hidden = model.extend_hidden(rows.last(heads.n), cache, start, keep=1)[:, -1]


def _outcomes(rows: Rows, blocks: Tensor, dead: Tensor) -> list[Outcome]:
    found = zip(outcomes(rows, [], 0), blocks.tolist(), dead.tolist(), strict=True)
    return [
        replace(one, passes=passes, unverified=len(one.tokens), dead_blocks=lost)
        for one, passes, lost in found
    ]


@torch.inference_mode()
def uncached(
    model: Model, stop_ids: tuple[int, ...], sampler: Sampler, requests: list[Request]
) -> list[Outcome]:
    """One token a step, the prompt and all tokens so far computed again for each.

    The baseline of papers whose models keep no keys and values; its tokens are `autoregressive`'s.
    A step is two passes (prompt, tokens), which on a CPU costs little more than one over both.
    """
    rows = Rows(requests, stop_ids, model.vocab_size, slack=0)
    prompts = [r.prompt for r in requests]
    lengths = torch.tensor([len(p) for p in prompts], device=model.device)
    cache = model.cache(len(prompts), int(lengths.max()) + rows.capacity)
    none = torch.zeros_like(rows.count)
    made = 0
    while True:
        logits = model.prefill(prompts, cache)[:, None]
        if made:
            logits = model.extend(rows.tokens[:, :made], cache, lengths, keep=1)
        positions = rows.positions(1)
        probs = sampler(logits, rows.tokens, positions, rows.stop)
        rows.emit(none, draw(probs, rows.uniform(positions, NEXT))[:, 0])
        made += 1
        if rows.finished:
            return outcomes(rows, [], 0)
