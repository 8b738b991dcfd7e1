"""Block verification through the real loop on many keyed utterances.

n = 20,000 utterances, chi-squares of false-alarm rate 1e-9 each (see `test_exactness`). Seeds are
fixed.
"""

import pytest
from goodness import mismatches
from stubs import speculative
from test_exactness import DRAFT, LAW, MANY, SAMPLER, STOPS, TARGET
from test_group_exactness import DISJOINT, group_mismatches

from speculative_tts.decoding.batch import BatchState, Request
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.rules.block import BlockRule


def decoded(rule: AcceptanceRule, lookahead: int = 3, rows: list[Request] = MANY) -> list[Outcome]:
    return speculative(TARGET, DRAFT, rule, STOPS, SAMPLER, lookahead, rows)


def a_round(found: list[Outcome]) -> float:
    """Tokens a round, of all rounds."""
    return sum(len(one.tokens) - 1 for one in found) / sum(one.counts.rounds for one in found)


@pytest.mark.parametrize("lookahead", [2, 3])
def test_outputs_follow_the_target_in_fewer_rounds(lookahead: int) -> None:
    found = decoded(BlockRule(), lookahead)
    assert mismatches(found, LAW) == []
    assert a_round(found) > a_round(decoded(Tolerance(), lookahead))


def test_uniforms_of_a_thrown_away_draft_must_not_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A control: keyed by position alone, as of rules that stop at the first rejection."""
    monkeypatch.setattr(BatchState, "renew", lambda _: None)
    assert mismatches(decoded(BlockRule()), LAW)


def test_groups_follow_the_targets_law_in_fewer_rounds() -> None:
    """Groups are counted, given the tokens before, against the target alone (168 chi-squares)."""
    found = decoded(BlockRule(DISJOINT.rule()))
    assert group_mismatches(found) == []
    assert mismatches(found, LAW)  # of tokens
    assert a_round(found) > a_round(decoded(DISJOINT.rule()))


def test_a_batch_equals_its_rows() -> None:
    together = decoded(BlockRule(), rows=MANY[:40])
    alone = [decoded(BlockRule(), rows=[row])[0] for row in MANY[:40]]
    assert [one.tokens for one in together] == [one.tokens for one in alone]
