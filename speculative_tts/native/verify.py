"""Rules and verifications of `verify.cpp`."""

import ctypes
from collections.abc import Mapping

import torch
from torch import Tensor

from speculative_tts.native.library import library

NARROW = 1 << 16  # tokens and groups up to which their numbers have 16 bits: half to read


class _Groups(ctypes.Structure):
    _fields_ = (
        *(
            (name, ctypes.c_void_p)
            for name in (
                *("token_offsets", "group_offsets", "token_groups", "group_tokens"),
                *("scores", "total", "levels"),
            )
        ),
        *((name, ctypes.c_int64) for name in ("tokens", "count", "wide")),
    )


class Rule(ctypes.Structure):
    """How drafted tokens are verified; see native.h."""

    _fields_ = (
        *(("beta", ctypes.c_double), ("groups", ctypes.POINTER(_Groups))),
        *((name, ctypes.c_int32) for name in ("block", "unused")),
    )


def by_tolerance(beta: float) -> Rule:
    """`decoding.rules.acceptance.Tolerance`."""
    return Rule(beta, None)


def by_groups(memberships: Mapping[str, Tensor]) -> Rule:
    """`decoding.rules.group.Group` by its `memberships`, on a CPU."""
    tokens, count = (len(memberships[name]) for name in ("total", "scores"))
    wide = max(tokens, count) > NARROW
    kept = {name: tensor.contiguous() for name, tensor in memberships.items()}
    if not wide:
        for name in ("token_groups", "group_tokens"):
            kept[name] = kept[name].to(torch.uint16)
    given = {name: tensor.data_ptr() for name, tensor in kept.items()}
    rule = Rule(0.0, ctypes.pointer(_Groups(**given, tokens=tokens, count=count, wide=wide)))
    rule.kept = kept  # what the structure points into
    return rule


def at_once(rule: Rule) -> Rule:
    """`decoding.rules.block.Block` of a rule that is made for it."""
    rule.block = 1
    return rule


def verify(
    rule: Rule,
    target_probs: Tensor,
    draft_probs: Tensor,
    drafted: Tensor,
    lengths: Tensor,
    uniforms: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """`decoding.rules.acceptance.verify`: accepted, next_probs and fallback."""
    native, (batch, number, vocab) = library(), draft_probs.shape
    assert native is not None
    accepted = torch.empty(batch, dtype=torch.int64)
    fallback, following = torch.empty(batch, dtype=torch.bool), torch.empty(batch, vocab)
    given = [target_probs, draft_probs, drafted, lengths, uniforms]
    kept = [tensor.contiguous() for tensor in given]
    pointers = [tensor.data_ptr() for tensor in (*kept, accepted, fallback, following)]
    native.sst_verify(ctypes.byref(rule), batch, number, vocab, *pointers, torch.get_num_threads())
    return accepted, following, fallback
