"""A recurrent layer as the drafter on many keyed utterances: the target's law, faults found.

As test_heads_exactness: 20,000 utterances, ten chi-squares with a false-alarm rate of 1e-9 each.
"""

import pytest
from head_stubs import Embedded, by_layer
from test_exactness import LAW, MANY, SAMPLER, STOPS, TARGET
from test_heads_exactness import found_wrong

from speculative_tts.decoding.loops import speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.randomness import DRAFT


def decode(beta: float = 0.0) -> list[Outcome]:
    return by_layer(Embedded(TARGET.table), Tolerance(beta), STOPS, SAMPLER, 3, MANY)


def test_verified_drafts_follow_the_targets_law() -> None:
    found = decode()
    assert 0.03 < sum(o.counts.accepted for o in found) / sum(o.counts.drafted for o in found) < 0.9
    assert found_wrong(found, LAW) == []


@pytest.mark.parametrize("fault", ["a tolerance", "acceptance reuses", "drafts reuse"])
def test_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative controls: another rule; uniforms of another draw."""
    if fault == "acceptance reuses":
        monkeypatch.setattr(speculation, "ACCEPT", DRAFT)
    if fault == "drafts reuse":
        name = "speculative_tts.decoding.drafters.drafts.DRAFT"
        monkeypatch.setattr(name, speculation.NEXT)
    assert found_wrong(decode(0.4 if fault == "a tolerance" else 0.0), LAW)
