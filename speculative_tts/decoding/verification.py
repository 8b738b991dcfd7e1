"""Verification of drafts, natively where the rule and the tensors allow it."""

from torch import Tensor

from speculative_tts.decoding import acceptance
from speculative_tts.decoding.acceptance import AcceptanceRule, Tolerance, Verdict
from speculative_tts.models.native import sample


def verify(
    rule: AcceptanceRule,
    target_probs: Tensor,
    draft_probs: Tensor,
    drafted: Tensor,
    lengths: Tensor,
    uniforms: Tensor,
) -> Verdict:
    """`acceptance.verify`: the same accepted tokens, the law behind them equal to 1e-6."""
    given = target_probs, draft_probs, drafted, lengths, uniforms
    if type(rule) is Tolerance and all(map(sample.runs, (target_probs, draft_probs))):
        accepted, next_probs, fallback = sample.verify(rule.beta, *given)
        return Verdict(accepted, next_probs, fallback)
    return acceptance.verify(rule, *given)
