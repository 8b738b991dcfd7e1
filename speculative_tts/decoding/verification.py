"""Verification of drafts, natively where the rule and the tensors allow it."""

from torch import Tensor

from speculative_tts.decoding import acceptance
from speculative_tts.decoding.acceptance import AcceptanceRule, Tolerance, Verdict
from speculative_tts.models.native import sample


def verify(rule: AcceptanceRule, *given: Tensor) -> Verdict:
    """`acceptance.verify`, of what it takes: the same accepted tokens, the law equal to 1e-6."""
    if type(rule) is Tolerance and all(map(sample.runs, given[:2])):
        return Verdict(*sample.verify(rule.beta, *given))
    return acceptance.verify(rule, *given)
