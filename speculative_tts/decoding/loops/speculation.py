"""Speculative decoding: rounds of draft, verify, accept, append.

Sources: Leviathan et al., 2023; with a tolerance SSD (Lin et al., 2025), with groups PCG (Yanuka et
al., 2025). The newest token stays out of the target's cache; `start` of an `extend_hidden` is where
it goes, so a rejected draft is rolled back by starting lower. Batches are ragged: every row has its
own number of tokens.
"""

from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor

from speculative_tts.decoding.batch import BatchState, Block, ByRow, Request, Size
from speculative_tts.decoding.drafters.drafter import CacheReader, Drafter, Laws, PerRow, started
from speculative_tts.decoding.gpu import rounds
from speculative_tts.decoding.gpu.launch import runs
from speculative_tts.decoding.loops.graphs import EAGER, Graphs, LoopSpec
from speculative_tts.decoding.loops.native_steps import sampled_steps
from speculative_tts.decoding.loops.observer import Observer
from speculative_tts.decoding.loops.one_by_one import emit_one
from speculative_tts.decoding.outcome import Outcome, Round, Tally, outcomes
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Verdict
from speculative_tts.decoding.sampling.randomness import ACCEPT, AUXILIARY, NEXT, draw
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.speech_lm import HiddenModel
from speculative_tts.native import sample
from speculative_tts.native import verify as compiled
from speculative_tts.native.walk import NativeRounds


@dataclass(frozen=True)
class Speculation:
    """A drafter, the target that verifies, and the rule; `lookahead` tokens a round at most."""

    target: HiddenModel
    drafter: Drafter | CacheReader
    rule: AcceptanceRule
    sampler: Sampler
    stop_ids: tuple[int, ...]
    lookahead: int

    def decode(
        self, requests: list[Request], observer: Observer | None = None, graphs: Graphs = EAGER
    ) -> list[Outcome]:
        """Decode a batch: tokens and counts of each request."""
        return graphs.decode(self.looping(observer), requests)

    def looping(self, observer: Observer | None = None) -> "LoopSpec[Rounds]":
        """Return the recipe of the loop that runs round after round."""
        parts = (id(self.target), id(self.drafter), id(self.rule))
        key = (*parts, self.sampler, self.stop_ids, self.lookahead)
        return LoopSpec(
            lambda size: Rounds(self, size, observer or Observer()),
            slack=self.lookahead,
            key=key if observer is None else None,  # who watches looks at numbers
        )


class Rounds(ByRow):
    """Round after round of one batch (a `graphs.Loop`)."""

    by_row = ("rows", "tally", "_cache", "_drafting")

    def __init__(self, speculation: Speculation, size: Size, watch: Observer) -> None:
        target, lookahead = speculation.target, speculation.lookahead
        again = lookahead if speculation.rule.judges_blocks else 0
        self.rows = BatchState(size, speculation.stop_ids, target.vocab_size, target.device, again)
        self.tally = Tally(size.batch, lookahead, target.device)
        self._cache = target.cache(size.batch, size.positions)
        self._drafting = started(speculation.drafter, size, self._cache)
        self._speculation, self._watch = speculation, watch
        self._native: NativeRounds | None = None

    def load(self, requests: list[Request]) -> None:
        """Prefill, and draw the first token."""
        target, rows = self._speculation.target, self.rows
        rows.load(requests)
        self.tally.clear()
        self._drafting.load(requests)
        hidden = target.prefill_hidden([r.prompt for r in requests], self._cache)[:, None]
        emit_one(rows, self._speculation.sampler, target.logits(hidden))
        self._drafting.observe(hidden, torch.zeros_like(rows.count))
        self._native = self._natively()

    def _natively(self) -> NativeRounds | None:
        """Return rounds in one native call; None unless target, drafter and rule are native."""
        a, drafting = self._speculation, self._drafting
        target = sampled_steps(a.target, self._cache, self.rows.lengths, a.sampler)
        if target is None:
            return None
        drafter, rule = drafting.native(a.sampler, a.lookahead), native_rule(a.rule)
        if drafter is None or rule is None:
            return None
        watched = type(self._watch) is not Observer
        if watched and a.rule.judges_blocks:
            return None  # whose weights an observer looks at
        return target.rounds(drafter, self.rows, self.tally, rule, watched=watched)

    def run_native(self, number: int) -> bool:
        """Run native rounds; False if an observer needs each round."""
        if self._native is None or self._native.laws is not None:
            return False
        self._native(number)
        return True

    def step(self) -> None:
        """Run a round, in Python where it is not native."""
        if self._native is None:
            self._round()
        elif not self.run_native(1):
            assert self._native.laws is not None
            before, active = self.tally.sums.clone(), ~self.rows.done
            self._native(1)
            self._watch.verified(*self._native.laws, self.tally.since(before, active))

    def _round(self) -> None:
        """Draft, verify, accept, append."""
        a, rows, drafting, watch = self._speculation, self.rows, self._drafting, self._watch
        rows.renew()
        with watch.section("draft"):
            drafted, draft_probs = drafting.propose(rows, a.sampler, a.lookahead)
        number = draft_probs.shape[1]
        with watch.section("verify"):
            fed = rows.inputs(rows.lengths, behind=1, ahead=number)
            hidden = a.target.extend_hidden(fed.ids, self._cache, fed.start)
            logits = a.target.logits(hidden)
            target_probs = a.sampler(logits, rows.tokens, fed.positions, rows.stop)
        with watch.section("accept"):
            given = target_probs, draft_probs, fed.ids, drafted
            if runs(target_probs) and type(watch) is Observer:
                accepted = rounds.settle(a.rule, rows, self.tally.sums, *given)
            else:
                made = settled(a.rule, rows, *given)
                self.tally.add(made)
                watch.verified(target_probs[:, :number], draft_probs, made)
                accepted = made.accepted
            drafting.observe(hidden, accepted)

    def outcomes(self) -> list[Outcome]:
        """See `Loop`."""
        made = outcomes(self.rows, self.tally.counts())
        if self._native is None:
            return made
        split = tuple(self._native.seconds.tolist())
        return [replace(one, split=split) for one in made]


def settled(
    rule: AcceptanceRule,
    rows: BatchState,
    target_probs: Float[Tensor, "batch number vocab"],
    draft_probs: Laws,
    fed: Block,
    drafted: PerRow,
) -> Round:
    """Verify a draft, draw the token after its accepted ones and append them.

    fed: the newest token and the drafted ones; drafted: how many of these count in each row.
    """
    random = rows.random(draft_probs.shape[1], ACCEPT, AUXILIARY)
    verdict = verify(rule, target_probs, draft_probs, fed[:, 1:], drafted, random)
    end = (rows.count + verdict.accepted)[:, None]
    token = draw(verdict.next_probs, rows.uniform(end, NEXT)[:, 0])
    active = ~rows.done
    bare = rows.emit(verdict.accepted, token)
    return Round(active, drafted, verdict.accepted, verdict.fallback, bare, verdict.weights)


_compiled: WeakKeyDictionary[AcceptanceRule, compiled.Rule | None] = WeakKeyDictionary()


def native_rule(rule: AcceptanceRule) -> compiled.Rule | None:
    """Return the rule for compiled verification on a CPU, made once; None where it has none."""
    if rule not in _compiled:
        form = rule.native()
        _compiled[rule] = (
            None if form is None else compiled.compiled(form.beta, form.groups, block=form.block)
        )
    return _compiled[rule]


def verify(rule: AcceptanceRule, *given: Tensor) -> Verdict:
    """Return what `rule.judge` returns: the same accepted tokens, the distribution equal to 1e-6.

    Block rules are compiled within native rounds alone.
    """
    if rule.judges_blocks or not all(map(sample.runs, given[:2])):
        return rule.judge(*given)
    own = native_rule(rule)
    return rule.judge(*given) if own is None else Verdict(*compiled.verify(own, *given))
