"""Faults of repetition-aware sampling under speculation, found in the law of whole outputs.

That it is exact is tested by `test_enumeration`.
"""

from dataclasses import dataclass

import pytest
from partition import induced_law
from reference import autoregressive_law
from stubs import request, speculative
from test_enumeration import NARROW, STOPS, distance, models
from torch import Tensor

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware


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
