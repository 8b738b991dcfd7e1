"""Verify drafts by compiled code where the rule and the tensors allow it, else by the rule."""

from weakref import WeakKeyDictionary

from torch import Tensor

from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Verdict
from speculative_tts.native import sample
from speculative_tts.native import verify as native

_compiled: WeakKeyDictionary[AcceptanceRule, native.Rule | None] = WeakKeyDictionary()


def native_rule(rule: AcceptanceRule) -> native.Rule | None:
    """Return the rule for compiled verification on a CPU, made once; None where it has none."""
    if rule not in _compiled:
        form = rule.native()
        _compiled[rule] = (
            None if form is None else native.compiled(form.beta, form.groups, block=form.block)
        )
    return _compiled[rule]


def verify(rule: AcceptanceRule, *given: Tensor) -> Verdict:
    """Return what `rule.judge` returns: the same accepted tokens, the distribution equal to 1e-6.

    Block rules are compiled within native rounds alone.
    """
    if all(map(sample.runs, given[:2])) and not rule.judges_blocks:
        compiled = native_rule(rule)
        if compiled is not None:
            return Verdict(*native.verify(compiled, *given))
    return rule.judge(*given)
