"""Verification of drafts, natively where the rule and the tensors allow it."""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor

from speculative_tts.decoding.rules import acceptance
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, BlockRule, Tolerance, Verdict
from speculative_tts.decoding.rules.block import Block
from speculative_tts.decoding.rules.group import Group
from speculative_tts.native import sample
from speculative_tts.native import verify as native

NATIVE: dict[type, Callable[[Any], native.Rule]] = {
    Tolerance: lambda rule: native.by_tolerance(rule.beta),
    Group: lambda rule: native.by_groups(rule.memberships),
    Block: lambda rule: native.at_once(NATIVE[type(rule.by)](rule.by)),
}
_made: WeakKeyDictionary[AcceptanceRule, native.Rule] = WeakKeyDictionary()


def native_rule(rule: AcceptanceRule) -> native.Rule | None:
    """The rule as the native verification has it, for laws on a CPU; None of one it has not."""
    make = NATIVE.get(type(rule))
    if make is None:
        return None
    if rule not in _made:
        _made[rule] = make(rule)
    return _made[rule]


def verify(rule: AcceptanceRule, *given: Tensor) -> Verdict:
    """`acceptance.verify`, of what it takes: the same accepted tokens, the law equal to 1e-6.

    Blocks are native within rounds alone.
    """
    if all(map(sample.runs, given[:2])) and not isinstance(rule, BlockRule):
        natively = native_rule(rule)
        if natively is not None:
            return Verdict(*native.verify(natively, *given))
    return acceptance.verify(rule, *given)
