"""Drafting that stops by the draft's own entropy, through the real loop on many keyed utterances.

n = 20,000 utterances; 8 chi-squares of false-alarm rate 1e-9 each (see `test_exactness`). Seeds are
fixed.
"""

import pytest
import torch
from goodness import mismatches
from test_exactness import DRAFT, LAW, MANY, SAMPLER, STOPS, TARGET
from torch import Tensor

from speculative_tts.decoding.batch import BatchState
from speculative_tts.decoding.drafters.lm import LMDrafter, LMDrafting
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.rules.block import BlockRule
from speculative_tts.decoding.sampling.sampler import Sampler

MOST = 0.9  # nats: the laws of a third of the contexts have less


def decoded(rule: Tolerance | BlockRule, entropy: float | None = MOST) -> list[Outcome]:
    drafter = LMDrafter(DRAFT, entropy)
    return Speculation(TARGET, drafter, rule, SAMPLER, STOPS, 3).decode(MANY)


def drafted(found: list[Outcome]) -> int:
    return sum(out.counts.drafted for out in found)


@pytest.mark.parametrize("rule", [Tolerance(0.0), BlockRule()], ids=["exact", "block"])
def test_outputs_follow_the_target_with_fewer_drafts(rule: Tolerance | BlockRule) -> None:
    found, always = decoded(rule), decoded(rule, None)
    assert mismatches(found, LAW) == []
    assert drafted(found) < 0.9 * drafted(always)
    assert sum(out.counts.drafted_per_position[1] for out in found) > 100
    rate, before = (
        sum(out.counts.accepted for out in one) / drafted(one) for one in (found, always)
    )
    assert rate > before


def test_chi_square_finds_a_draft_that_peeks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: the last token is thrown away where it is unlikely, which is looking at it."""
    honest = LMDrafting.propose

    def peeking(
        self: LMDrafting, rows: BatchState, sampler: Sampler, lookahead: int
    ) -> tuple[Tensor, Tensor]:
        number, laws = honest(self, rows, sampler, lookahead)
        if laws.shape[1] == 0:
            return number, laws
        last = (number - 1).clamp(min=0)[:, None]
        token = rows.tokens.gather(1, rows.positions(1) + last)
        row = torch.arange(len(number))
        unlikely = laws[row, last[:, 0], token[:, 0]] < 0.2
        return number - (unlikely & (number > 0)).long(), laws

    monkeypatch.setattr(LMDrafting, "propose", peeking)
    assert mismatches(decoded(Tolerance(0.0)), LAW)
