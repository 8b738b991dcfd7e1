"""Heads and a recurrent layer as drafters on many keyed utterances: the target's law, faults found.

n = 20,000 utterances, chi-squares of the first four tokens, of pairs, and of three tokens together:
ten comparisons, each with a false-alarm rate of 1e-9.
"""

from collections.abc import Callable
from functools import partial

import pytest
from goodness import PLACES, mismatches
from head_stubs import Embedded, by_heads, by_layer, choosers
from test_exactness import LAW, MANY, SAMPLER, STOPS, TARGET

from speculative_tts.decoding.loops import speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.sampling.randomness import DRAFT

WHERE = (*PLACES, (0, 1, 2), (1, 2, 3))
Decode = Callable[..., list[Outcome]]
HEADS: dict[str, Decode] = {
    name: partial(by_heads, TARGET, chooser)
    for name, chooser in choosers(TARGET.vocab_size, STOPS, SAMPLER).items()
}
DRAFTERS = HEADS | {"a layer": partial(by_layer, Embedded(TARGET.table))}


def said(drafter: str, rule: AcceptanceRule) -> list[Outcome]:
    return DRAFTERS[drafter](rule, STOPS, SAMPLER, 3, MANY)


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_verified_drafts_follow_the_targets_law(drafter: str) -> None:
    found = said(drafter, Tolerance(0.0))
    assert 0.03 < sum(o.counts.accepted for o in found) / sum(o.counts.drafted for o in found) < 0.9
    assert mismatches(found, LAW, WHERE) == []


@pytest.mark.parametrize("drafter", ["independent", "drawn path, boundary", "a layer"])
@pytest.mark.parametrize("fault", ["a tolerance", "acceptance reuses", "drafts reuse"])
def test_faults_are_found(drafter: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative controls: another rule; uniforms of another draw."""
    if fault == "acceptance reuses":
        monkeypatch.setattr(speculation, "ACCEPT", DRAFT)
    if fault == "drafts reuse":
        for module in ("blocks.choosers", "drafters.drafts"):
            monkeypatch.setattr(f"speculative_tts.decoding.{module}.DRAFT", speculation.NEXT)
    found = said(drafter, Tolerance(0.4 if fault == "a tolerance" else 0.0))
    assert mismatches(found, LAW, WHERE)
