"""Speculation under repetition-aware sampling is exact: the whole outputs' law, to 1e-12."""

from dataclasses import dataclass

import pytest
from partition import induced_law
from reference import autoregressive_law
from stubs import request, speculative
from test_enumeration import distance, models
from torch import Tensor

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.schema.decode import Repetition

STOPS = (2,)
NARROW = {"top_p": 0.7, "top_k": 3, "window": 3, "tau": 0.3}


@pytest.mark.parametrize(
    ("vocab", "lookahead", "maximum", "sampler"),
    [
        (4, 1, 4, RepetitionAware(**NARROW)),
        (4, 3, 4, RepetitionAware(**NARROW)),
        (5, 3, 4, RepetitionAware(temperature=0.8, top_k=4, window=2, tau=0.5)),
        (4, 2, 5, RepetitionAware(top_p=0.6, window=4, tau=0.5)),
        (4, 3, 4, RepetitionAware(**NARROW, variant=Repetition.redraw_eos)),
    ],
)
def test_speculation_induces_the_samplers_law(
    vocab: int, lookahead: int, maximum: int, sampler: RepetitionAware
) -> None:
    target, draft = models(vocab)
    one = request(minimum=0, maximum=maximum)

    def decode(rule: AcceptanceRule, rows: list[Request]) -> list[Outcome]:
        return speculative(target, draft, rule, STOPS, sampler, lookahead, rows)

    law = induced_law(decode, one, lookahead=lookahead)
    exact = autoregressive_law(target, sampler, STOPS, one)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    assert distance(law, exact) < 1e-12
    plain = induced_law(lambda _, rows: autoregressive(target, STOPS, sampler, rows), one)
    assert distance(plain, exact) < 1e-12


@dataclass(frozen=True)
class WithoutDrafts(RepetitionAware):
    """All positions of one call look at what was before the first of them."""

    def _repeats(self, ids: Tensor, history: Tensor, positions: Tensor) -> Tensor:
        return super()._repeats(ids, history, positions[:, :1].expand_as(positions))


@dataclass(frozen=True)
class OneLater(RepetitionAware):
    """The window ends one token too early."""

    def _repeats(self, ids: Tensor, history: Tensor, positions: Tensor) -> Tensor:
        return super()._repeats(ids, history, (positions - 1).clamp(min=0))


@pytest.mark.parametrize("kind", [WithoutDrafts, OneLater])
def test_a_history_without_drafts_is_found(kind: type[RepetitionAware]) -> None:
    """Negative controls."""
    target, draft = models(4)
    one = request(minimum=0, maximum=4)

    def decode(rule: AcceptanceRule, rows: list[Request]) -> list[Outcome]:
        return speculative(target, draft, rule, STOPS, kind(**NARROW), 3, rows)

    law = induced_law(decode, one, lookahead=3)
    exact = autoregressive_law(target, RepetitionAware(**NARROW), STOPS, one)
    assert distance(law, exact) > 1e-3
