"""Other drafters, drafts that end early and verification by blocks: the target's law, faults found.

n = 20,000 utterances; 8 chi-squares of false-alarm rate 1e-9 each (see `test_exactness`), of the
drafters ten: three tokens together too. Seeds are fixed.
"""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from goodness import PLACES, mismatches
from head_stubs import Embedded, by_heads, by_layer, choosers
from stubs import speculative
from test_exactness import DRAFT, LAW, MANY, SAMPLER, STOPS, TARGET
from test_group_exactness import DISJOINT, group_mismatches
from torch import Tensor

from speculative_tts.decoding.batch import BatchState
from speculative_tts.decoding.drafters.lm import LMDrafter, LMDrafting
from speculative_tts.decoding.loops import speculation
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.rules.block import BlockRule
from speculative_tts.decoding.sampling.randomness import DRAFT as OF_DRAFT
from speculative_tts.decoding.sampling.sampler import Sampler

WHERE = (*PLACES, (0, 1, 2), (1, 2, 3))
Decode = Callable[..., list[Outcome]]
HEADS: dict[str, Decode] = {
    name: partial(by_heads, TARGET, chooser)
    for name, chooser in choosers(TARGET.vocab_size, STOPS, SAMPLER).items()
}
DRAFTERS = HEADS | {"a layer": partial(by_layer, Embedded(TARGET.table))}


def by_drafter(drafter: str, rule: AcceptanceRule) -> list[Outcome]:
    return DRAFTERS[drafter](rule, STOPS, SAMPLER, 3, MANY)


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_verified_drafts_follow_the_targets_law(drafter: str) -> None:
    found = by_drafter(drafter, Tolerance(0.0))
    assert 0.03 < sum(o.counts.accepted for o in found) / sum(o.counts.drafted for o in found) < 0.9
    assert mismatches(found, LAW, WHERE) == []


@pytest.mark.parametrize("drafter", ["independent", "drawn path, boundary", "a layer"])
@pytest.mark.parametrize("fault", ["a tolerance", "acceptance reuses", "drafts reuse"])
def test_faults_are_found(drafter: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative controls: another rule; uniforms of another draw."""
    if fault == "acceptance reuses":
        monkeypatch.setattr(speculation, "ACCEPT", OF_DRAFT)
    if fault == "drafts reuse":
        for module in ("blocks.choosers", "drafters.drafts"):
            monkeypatch.setattr(f"speculative_tts.decoding.{module}.DRAFT", speculation.NEXT)
    found = by_drafter(drafter, Tolerance(0.4 if fault == "a tolerance" else 0.0))
    assert mismatches(found, LAW, WHERE)


def spoken(rule: AcceptanceRule, lookahead: int = 3) -> list[Outcome]:
    return speculative(TARGET, DRAFT, rule, STOPS, SAMPLER, lookahead, MANY)


def a_round(found: list[Outcome]) -> float:
    """Tokens a round, of all rounds."""
    return sum(len(one.tokens) - 1 for one in found) / sum(one.counts.rounds for one in found)


@pytest.mark.parametrize("lookahead", [2, 3])
def test_blocks_follow_the_target_in_fewer_rounds(lookahead: int) -> None:
    found = spoken(BlockRule(), lookahead)
    assert mismatches(found, LAW) == []
    assert a_round(found) > a_round(spoken(Tolerance(), lookahead))


def test_uniforms_of_a_thrown_away_draft_must_not_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A control: keyed by position alone, as of rules that stop at the first rejection."""
    monkeypatch.setattr(BatchState, "renew", lambda _: None)
    assert mismatches(spoken(BlockRule()), LAW)


def test_groups_follow_the_targets_law_in_fewer_rounds() -> None:
    """Groups are counted, given the tokens before, against the target alone (168 chi-squares)."""
    found = spoken(BlockRule(DISJOINT.rule()))
    assert group_mismatches(found) == []
    assert mismatches(found, LAW)  # of tokens
    assert a_round(found) > a_round(spoken(DISJOINT.rule()))


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
