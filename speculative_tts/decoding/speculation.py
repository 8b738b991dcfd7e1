"""Speculative decoding: rounds of draft, verify, accept, append.

Sources: Leviathan et al., 2023; with a tolerance SSD (Lin et al., 2025), with groups PCG (Yanuka et
al., 2025). The newest token stays out of the target's cache; `start` of an `extend_hidden` is where
it goes, so a rejected draft is rolled back by starting lower. Batches are ragged: every row has its
own number of tokens.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from speculative_tts.decoding.acceptance import AcceptanceRule
from speculative_tts.decoding.batch import BatchState, Request, lengths_of
from speculative_tts.decoding.drafters.drafter import Drafter
from speculative_tts.decoding.observer import Observer
from speculative_tts.decoding.outcome import Outcome, Round, outcomes
from speculative_tts.decoding.randomness import ACCEPT, AUXILIARY, NEXT, draw
from speculative_tts.decoding.sampling import Sampler
from speculative_tts.decoding.verification import verify
from speculative_tts.models.speech_lm import HiddenModel


@dataclass(frozen=True)
class Speculation:
    """Who proposes, who verifies, and by which rule; `lookahead` tokens a round at most."""

    target: HiddenModel
    drafter: Drafter
    rule: AcceptanceRule
    sampler: Sampler
    stop_ids: tuple[int, ...]
    lookahead: int

    def decode(self, requests: list[Request], observer: Observer | None = None) -> list[Outcome]:
        """Tokens and counts of a batch."""
        if not requests:
            return []
        ((rows, rounds),) = deque(self.rounds(requests, observer), maxlen=1)
        return outcomes(rows, rounds, self.lookahead)

    @torch.inference_mode()
    def rounds(
        self, requests: list[Request], observer: Observer | None = None
    ) -> Iterator[tuple[BatchState, list[Round]]]:
        """Rows and rounds after the first token and each round; the same objects each time."""
        target, sampler, watch = self.target, self.sampler, observer or Observer()
        rows = BatchState(requests, self.stop_ids, target.vocab_size, slack=self.lookahead)
        prompts = [r.prompt for r in requests]
        lengths = lengths_of(prompts)
        cache = target.cache(len(prompts), int(lengths.max()) + rows.capacity)
        drafting = self.drafter.start(requests, rows.capacity)

        hidden, none = target.prefill_hidden(prompts, cache)[:, None], torch.zeros_like(rows.count)
        positions = rows.positions(1)
        probs = sampler(target.logits(hidden), rows.tokens, positions, rows.stop)
        rows.emit(none, draw(probs, rows.uniform(positions, NEXT))[:, 0])
        drafting.saw(hidden, none)

        rounds: list[Round] = []
        yield rows, rounds
        while not rows.finished:
            with watch.section("draft"):
                drafted, draft_probs = drafting.propose(rows, sampler, self.lookahead)
            number = draft_probs.shape[1]
            with watch.section("verify"):
                fed, start = rows.window(-1, number + 1), lengths + rows.count - 1
                hidden = target.extend_hidden(fed, cache, start)
                positions = rows.positions(number + 1)
                target_probs = sampler(target.logits(hidden), rows.tokens, positions, rows.stop)
            with watch.section("accept"):
                purposes = (ACCEPT, AUXILIARY)
                random = torch.stack([rows.uniform(positions[:, :number], p) for p in purposes], -1)
                verdict = verify(self.rule, target_probs, draft_probs, fed[:, 1:], drafted, random)
                end = (rows.count + verdict.accepted)[:, None]
                token = draw(verdict.next_probs, rows.uniform(end, NEXT)[:, 0])
                active, before = ~rows.done, rows.count
                rows.emit(verdict.accepted, token)
                bare = rows.count - before == verdict.accepted
                drafting.saw(hidden, verdict.accepted)
            rounds.append(Round(active, drafted, verdict.accepted, verdict.fallback, bare))
            watch.verified(target_probs[:, :number], draft_probs, rounds[-1])
            yield rows, rounds
