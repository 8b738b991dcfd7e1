"""n tokens a pass: heads on the target's hidden state, and a choice among their predictions.

Multi-token prediction (Nguyen et al., 2025, arXiv 2410.13839). Nothing is verified here: the
distribution is not the target's, unless n = 1 (`drafters.heads` has the same blocks verified).
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from speculative_tts.decoding.batch import BatchState, ByRow, Request, Size
from speculative_tts.decoding.blocks.choosers import Chooser
from speculative_tts.decoding.gpu import blocks as on_gpu
from speculative_tts.decoding.gpu.launch import runs
from speculative_tts.decoding.loops.graphs import EAGER, Graphs, LoopSpec
from speculative_tts.decoding.loops.native_steps import sampled_steps
from speculative_tts.decoding.outcome import Outcome, outcomes
from speculative_tts.models.heads import Heads
from speculative_tts.models.speech_lm import HiddenModel, UncachedModel
from speculative_tts.records import Counts


def multi_token(
    model: HiddenModel,
    heads: Heads,
    choose: Chooser,
    stop_ids: tuple[int, ...],
    requests: list[Request],
    graphs: Graphs = EAGER,
) -> list[Outcome]:
    """Decode a batch with one pass of the trunk for every block of heads.n tokens.

    Blocks are cut at stop id and length limit.
    """
    return graphs.decode(by_blocks(model, heads, choose, stop_ids), requests)


def by_blocks(
    model: HiddenModel, heads: Heads, choose: Chooser, stop_ids: tuple[int, ...]
) -> "LoopSpec[Blocks]":
    """Return the recipe of the loop that decodes block after block."""
    return LoopSpec(
        lambda size: Blocks(model, heads, choose, stop_ids, size),
        slack=heads.n,
        key=(id(model), id(heads), id(choose), stop_ids),
    )


@torch.inference_mode()
def uncached_blocks(
    model: UncachedModel,
    heads: Heads,
    choose: Chooser,
    stop_ids: tuple[int, ...],
    requests: list[Request],
) -> list[Outcome]:
    """Return the outcomes of `multi_token`, each block by a pass over all so far, computed anew.

    Compares with `one_by_one.uncached` as `multi_token` does with a target that has a cache.
    """
    if not requests:
        return []
    blocks = Blocks(model, heads, choose, stop_ids, Size.of(requests, slack=heads.n))
    blocks.load(requests)
    whole, rows = [r.prompt for r in requests], blocks.rows
    while not rows.finished:
        going = zip(whole, rows.last(heads.n), rows.done.tolist(), strict=True)
        whole = [row if done else model.append(row, ids) for row, ids, done in going]
        blocks.restart(whole)
    return blocks.outcomes()


class Blocks(ByRow):
    """Block after block of one batch (a `graphs.Loop`)."""

    by_row = ("rows", "_cache", "_made", "_dead")

    def __init__(
        self,
        model: HiddenModel,
        heads: Heads,
        choose: Chooser,
        stop_ids: tuple[int, ...],
        size: Size,
    ) -> None:
        self.rows = BatchState(size, stop_ids, heads.vocab_size, model.device)
        self._model, self._heads, self._choose = model, heads, choose
        self._cache = model.cache(size.batch, size.positions)
        self._made, self._dead = self.rows.count.new_zeros(2, size.batch)
        self._native: Callable[[int], None] | None = None

    def load(self, requests: list[Request]) -> None:
        """Prefill, and decode the first block."""
        self.rows.load(requests)
        self._made.zero_()
        self._dead.zero_()
        hidden = self._model.prefill_hidden([r.prompt for r in requests], self._cache)
        codes = [-1 if r.last_code is None else r.last_code for r in requests]
        self._commit(hidden, torch.tensor(codes, device=hidden.device))
        self._native = self._natively()

    def _natively(self) -> Callable[[int], None] | None:
        """Return steps in one native call; None unless model, heads and chooser are native."""
        if self._heads.native is None or self._choose.native is None:
            return None
        sampler, search = self._choose.native
        steps = sampled_steps(self._model, self._cache, self.rows.lengths, sampler)
        if steps is None:
            return None
        return steps.blocks(self.rows, self._heads.native, search, self._made, self._dead)

    def run_native(self, number: int) -> bool:
        """See `Loop`."""
        if self._native is None:
            return False
        self._native(number)
        return True

    def step(self) -> None:
        """Decode the next block, in Python where it is not native."""
        if not self.run_native(1):
            self._block()

    def _block(self) -> None:
        """Rows that are done feed anything; the others took all n tokens."""
        rows, n = self.rows, self._heads.n
        fed = rows.inputs(rows.lengths, behind=n)
        hidden = self._model.extend_hidden(fed.ids, self._cache, fed.start, keep=1)
        self._commit(hidden[:, -1], None)

    def restart(self, prompts: list[Tensor]) -> None:
        """Make the next block by a pass over prompts that hold all tokens so far."""
        self._commit(self._model.prefill_hidden(prompts, self._cache), None)

    def _commit(self, hidden: Tensor, before: Tensor | None) -> None:
        block = self._choose(self._heads(hidden), self.rows, before)
        if runs(block.tokens):
            on_gpu.commit(self.rows, block.tokens, block.dead, self._made, self._dead)
            return
        self._made += ~self.rows.done
        if block.dead is not None:
            self._dead += block.dead & ~self.rows.done
        self.rows.commit(block.tokens)

    def outcomes(self) -> list[Outcome]:
        """Return one outcome per row; call when all rows are done."""
        made, dead = self._made.tolist(), self._dead.tolist()
        return [
            replace(one, counts=Counts(passes=passes, unverified=len(one.tokens), dead_blocks=lost))
            for one, passes, lost in zip(outcomes(self.rows), made, dead, strict=True)
        ]
