"""Rules and verifications of `verify.cpp`."""

import ctypes
from collections.abc import Mapping

import torch
from torch import Tensor

from speculative_tts.native.library import library
from speculative_tts.native.structures import numbers, pointers

NARROW = 1 << 16  # tokens and groups up to which their numbers have 16 bits: half to read


class _Groups(ctypes.Structure):
    _fields_ = (
        *pointers("token_offsets group_offsets token_groups group_tokens scores total levels"),
        *numbers(ctypes.c_int64, "tokens count wide"),
    )


class Rule(ctypes.Structure):
    """A rule for compiled verification; see native.h."""

    _fields_ = (
        ("beta", ctypes.c_double),
        ("groups", ctypes.POINTER(_Groups)),
        *numbers(ctypes.c_int32, "block unused"),
    )


def compiled(beta: float, groups: Mapping[str, Tensor] | None, *, block: bool) -> Rule:
    """Return a rule of `decoding.rules` for compiled verification on a CPU.

    groups: memberships of `decoding.rules.group.Group`; None: tokens are judged one by one. block:
    all drafted tokens are judged together.
    """
    rule = Rule(beta, None) if groups is None else _by_groups(beta, groups)
    rule.block = int(block)
    return rule


def _by_groups(beta: float, memberships: Mapping[str, Tensor]) -> Rule:
    tokens, count = (len(memberships[name]) for name in ("total", "scores"))
    wide = max(tokens, count) > NARROW
    arrays = {name: tensor.contiguous() for name, tensor in memberships.items()}
    if not wide:
        for name in ("token_groups", "group_tokens"):
            arrays[name] = arrays[name].to(torch.uint16)
    pointers = {name: tensor.data_ptr() for name, tensor in arrays.items()}
    rule = Rule(beta, ctypes.pointer(_Groups(**pointers, tokens=tokens, count=count, wide=wide)))
    rule.kept = arrays  # the structure points into them
    return rule


def verify(
    rule: Rule,
    target_probs: Tensor,
    draft_probs: Tensor,
    drafted: Tensor,
    lengths: Tensor,
    uniforms: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return accepted, next_probs and fallback of `AcceptanceRule.judge`, by compiled code."""
    native, (batch, number, vocab) = library(), draft_probs.shape
    assert native is not None
    accepted = torch.empty(batch, dtype=torch.int64)
    fallback, following = torch.empty(batch, dtype=torch.bool), torch.empty(batch, vocab)
    given = [target_probs, draft_probs, drafted, lengths, uniforms]
    kept = [tensor.contiguous() for tensor in given]
    pointers = [tensor.data_ptr() for tensor in (*kept, accepted, fallback, following)]
    native.sst_verify(ctypes.byref(rule), batch, number, vocab, *pointers, torch.get_num_threads())
    return accepted, following, fallback
