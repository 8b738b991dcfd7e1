"""Speculation under repetition-aware sampling on many keyed utterances.

n = 20,000 utterances; 8 chi-squares of false-alarm rate 1e-9 each (see `test_exactness`). Seeds
are fixed.
"""

from goodness import mismatches
from reference import autoregressive_law
from stubs import speculative
from test_exactness import DRAFT, MANY, ONE, STOPS, TARGET

from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler

SAMPLER = RepetitionAware(temperature=0.8, top_k=5, top_p=0.8, window=3, tau=0.3)


def test_speculation_follows_the_samplers_law_and_no_other() -> None:
    """The second half is a control: the same law without repetition awareness is told apart."""
    found = speculative(TARGET, DRAFT, Tolerance(0.0), STOPS, SAMPLER, 3, MANY)
    assert mismatches(found, autoregressive_law(TARGET, SAMPLER, STOPS, ONE)) == []
    plain = Sampler(temperature=0.8, top_k=5, top_p=0.8)
    assert mismatches(found, autoregressive_law(TARGET, plain, STOPS, ONE))
