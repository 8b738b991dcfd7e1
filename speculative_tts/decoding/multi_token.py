"""n tokens a pass: heads on the target's hidden state, and a choice among their predictions.

Multi-token prediction (Nguyen et al., 2025, arXiv 2410.13839). Nothing is verified: the law is not
the target's, unless n = 1. A block is chosen from each head by itself, or by path search
(`decoding.viterbi`). Where a block ends the utterance:

- own choices: at the first stop id, as in any loop;
- best path: before the first head whose likeliest token is a stop id (the paper says nothing);
- sampled path: head i says how probable it is that the utterance has ended by its token (heads are
  trained to repeat the stop id behind the end), so one uniform per block is compared with each;
  with the sampler's `end_when_likeliest` also before the first head that is likeliest to end.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from speculative_tts.decoding.batch import Model, Request, Rows
from speculative_tts.decoding.outcome import Outcome, outcomes
from speculative_tts.decoding.penalty import RepetitionPenalty
from speculative_tts.decoding.randomness import ACCEPT, NEXT, draw
from speculative_tts.decoding.ras import RepetitionAware
from speculative_tts.decoding.sampling import Sampler, StopRule
from speculative_tts.decoding.transitions import IMPOSSIBLE
from speculative_tts.decoding.viterbi import Path, PathSearch
from speculative_tts.models.heads import Heads

LOOK_BACK = (RepetitionAware, RepetitionPenalty)
"""Samplers whose law depends on the tokens before."""


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


class PromptedModel(Model, Protocol):
    """A model whose prompts can grow."""

    def append(self, prompt: Tensor, ids: Tensor) -> Tensor:
        """A prompt, as `prefill` reads it, with speech ids [new] behind."""
        ...


@dataclass(frozen=True)
class Block:
    """Tokens [batch, n], a stop id where the utterance ends, and dead lattices [batch]."""

    tokens: Tensor
    dead: Tensor | None = None


class Own:
    """Each token from its own head by the target's sampler (greedy at temperature 0).

    Heads do not see the tokens of the block; a sampler that looks back does, drawn one by one.
    """

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def __call__(
        self,
        logits: Tensor,
        rows: Rows,
        before: Tensor | None = None,  # noqa: ARG002 - of choosers that count transitions
    ) -> Block:
        """logits: float32 [batch, n, vocab]. Writes the tokens to `rows`, provisionally."""
        n = logits.shape[1]
        at_once = 1 if isinstance(self._sampler, LOOK_BACK) else n
        positions = rows.positions(n)
        for begin in range(0, n, at_once):
            some = slice(begin, begin + at_once)
            where = positions[:, some]
            probs = self._sampler(logits[:, some], rows.tokens, where, rows.stop)
            rows.tokens.scatter_(1, where, draw(probs, rows.uniform(where, NEXT)))
        return Block(rows.tokens.gather(1, positions))


class Searched:
    """A path through the heads' candidates, the best one or one drawn; see the module.

    Of the target's sampler it knows the temperature alone: candidates are `search.top_k` a head.
    """

    def __init__(
        self,
        search: PathSearch,
        stop: StopRule,
        *,
        temperature: float,
        sample: bool,
        end_when_likeliest: bool = False,
    ) -> None:
        if not temperature > 0:
            raise ValueError(f"viterbi.temperature {temperature} is not above 0; 1 is plain")
        self._search, self._temperature, self._sample = search, temperature, sample
        self._ends = end_when_likeliest
        self._free = replace(search, boundary=False)  # where no code comes before the block
        self._stop_ids = stop.is_stop.nonzero()[:, 0]
        self._bar = torch.where(stop.is_stop, IMPOSSIBLE, 0.0)  # no path goes through a stop id

    def __call__(self, logits: Tensor, rows: Rows, before: Tensor | None = None) -> Block:
        """logits: float32 [batch, n, vocab].

        before: int64 [batch], each prompt's last code, -1 where there is none; None for later
        blocks, before which comes what the rows hold.
        """
        n, stop = logits.shape[1], rows.stop
        positions = rows.positions(n)
        logits = stop.mask(logits, positions)
        if self._temperature != 1:
            logits = logits / self._temperature
        scores = logits + self._bar
        if self._sample:
            kept, ids = logits.topk(min(self._search.top_k, logits.shape[-1]), -1)
            top = kept[..., 0]
            uniform = rows.uniform(positions, NEXT)
            path = self._path(lambda s, last: s.sample(scores, ids, last, uniform), rows, before)
            over = (kept.softmax(-1) * stop.is_stop[ids]).sum(-1)
            ends = rows.uniform(positions[:, :1], ACCEPT) >= 1 - over
            if self._ends:
                ends |= stop.is_stop[ids[..., 0]]
        else:
            path = self._path(lambda s, last: s.best(scores, last), rows, before)
            top, best = logits.max(-1)
            ends = stop.is_stop[best]
        tokens = path.tokens
        if len(self._stop_ids):
            likeliest = self._stop_ids[logits[..., self._stop_ids].argmax(-1)]
            tokens = torch.where(ends, likeliest, tokens)
        nothing = logits.shape[-1]  # see `Rows`
        return Block(torch.where(top.isfinite(), tokens, nothing), path.dead)

    def _path(
        self, run: Callable[[PathSearch, Tensor], Path], rows: Rows, before: Tensor | None
    ) -> Path:
        """The path that `run` finds; without a boundary in rows that have nothing before."""
        if before is None:
            return run(self._search, rows.last(1)[:, 0])
        found = run(self._search, before.clamp(min=0))
        if not self._search.boundary:
            return found
        free, none = run(self._free, before), before < 0
        tokens = torch.where(none[:, None], free.tokens, found.tokens)
        return Path(tokens, torch.where(none, free.dead, found.dead))


Chooser = Own | Searched


@torch.inference_mode()
def multi_token(
    model: HiddenModel,
    heads: Heads,
    choose: Chooser,
    stop_ids: tuple[int, ...],
    requests: list[Request],
) -> list[Outcome]:
    """One pass of the trunk for every block of heads.n tokens, cut at stop id and length limit.

    The device is waited for once a block, to learn whether all rows are done (`Rows.commit`).
    """
    if not requests:
        return []
    rows = Rows(requests, stop_ids, heads.vocab_size, slack=heads.n)
    prompts = [r.prompt for r in requests]
    lengths = torch.tensor([len(p) for p in prompts], device=model.device)
    cache = model.cache(len(prompts), int(lengths.max()) + rows.capacity)
    hidden = model.prefill_hidden(prompts, cache)
    codes = [-1 if r.last_code is None else r.last_code for r in requests]
    before: Tensor | None = torch.tensor(codes, device=model.device)
    blocks, dead = torch.zeros_like(rows.count), torch.zeros_like(rows.count)
    while True:
        block = choose(heads(hidden), rows, before)
        before = None
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
    model: PromptedModel, stop_ids: tuple[int, ...], sampler: Sampler, requests: list[Request]
) -> list[Outcome]:
    """One token a step by one pass over the prompt and all tokens so far, computed anew.

    The baseline of papers whose models keep no keys and values; its tokens are `autoregressive`'s.
    """
    if not requests:
        return []
    rows = Rows(requests, stop_ids, model.vocab_size, slack=0)
    prompts = [r.prompt for r in requests]
    cache = model.cache(len(prompts), max(len(p) for p in prompts) + rows.capacity)
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
