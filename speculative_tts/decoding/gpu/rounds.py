"""Rounds by kernels: inputs, drafted tokens, acceptance, and the token that follows.

Each function says which torch code is its reference. All work on the tensors of a `BatchState`, in
place, and read nothing of the device's.
"""

from dataclasses import dataclass
from functools import cache
from typing import Protocol
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from speculative_tts.decoding.gpu.arguments import (
    Accepted,
    DrawnLaws,
    InputSizes,
    InputTensors,
    Judging,
    JudgingConstants,
    NextInputs,
    NextMass,
    RowArguments,
    TallySums,
    TokenGroups,
)
from speculative_tts.decoding.gpu.draws import cut
from speculative_tts.decoding.gpu.groups import GroupSums
from speculative_tts.decoding.gpu.launch import launch
from speculative_tts.decoding.rules.acceptance import AcceptanceRule
from speculative_tts.decoding.sampling.randomness import ACCEPT, AUXILIARY
from speculative_tts.models.gpu.triton_runtime import power_of_2

Pair = tuple[Tensor, Tensor]
_kernels: "WeakKeyDictionary[AcceptanceRule, RuleKernels | None]" = WeakKeyDictionary()
TILE = 2048
MEMBERS = 16  # of a token or group, read at a time


class RowTensors(Protocol):
    """The tensors of a `BatchState`, which kernels read and change where they lie."""

    tokens: Tensor
    count: Tensor
    done: Tensor
    limit: Tensor
    ends: Tensor
    uniforms: Tensor
    again: Tensor

    def random(self, number: int, *purposes: int) -> Tensor:
        """Return uniforms of some purposes for the next `number` tokens."""
        ...


def arguments_of(rows: RowTensors) -> RowArguments:
    """Return rows as kernels take them."""
    given = rows.tokens, rows.count, rows.done, rows.limit, rows.ends, rows.uniforms
    return RowArguments(*given, rows.tokens.stride(0))


def inputs(
    rows: RowTensors, lengths: Tensor, behind: int, ahead: int, lookahead: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the fields of `batch.Inputs`; `BatchState.inputs` is the reference."""
    batch, number = len(rows.count), behind + ahead
    ids, positions = (rows.count.new_empty(batch, n) for n in (number, ahead + 1))
    start, room, newest = rows.count.new_empty(3, batch).unbind()
    made = InputTensors(ids, start, positions, room, newest)
    sizes = InputSizes(-behind, number, ahead + 1, lookahead, len(rows.ends) - 1)
    launch(
        "rounds.inputs_kernel", (batch,), arguments_of(rows), lengths, made, sizes,
        SIZE=power_of_2(number), num_warps=1,
    )  # fmt: skip
    return made


def drafted(
    rows: RowTensors, lengths: Tensor, probs: Tensor, step: int, drafted: Tensor,
    entropy: float | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Draw as `Drafts.add`: return the next ids [batch, 1], their place in a cache, their position.

    `drafted` is changed.
    """
    batch, vocab = len(probs), probs.shape[-1]
    ids, start, position = rows.count.new_empty(3, batch).unbind()
    sums, parts = cut(batch, probs)
    launch(
        "rounds.drafted_kernel", (batch,),
        arguments_of(rows), step, lengths, DrawnLaws(probs.contiguous(), sums, vocab),
        NextInputs(drafted, ids, start, position), entropy, **parts,
    )  # fmt: skip
    return ids[:, None], start, position[:, None]


def emit(rows: RowTensors, probs: Tensor) -> None:
    """Draw one more token of each row from probs [batch, vocab] and append it."""
    _settle(rows, NextMass(None, None, probs.contiguous(), 0, probs.shape[-1]))


def renew(rows: RowTensors) -> None:
    """Renew the uniforms of rows whose rounds have their own; see `BatchState.renew`."""
    again = rows.again.shape[2]
    launch(
        "rounds.renew_kernel", (len(rows.count),),
        rows.uniforms, rows.again, rows.count, rows.tokens.stride(0),
        AGAIN=again, SIZE=power_of_2(4 * again), num_warps=1,
    )  # fmt: skip


def leave(rows: RowTensors, answer: Tensor) -> None:
    """Write whether all rows are done to memory of the host that the device can reach (pinned)."""
    batch = len(rows.done)
    launch(
        "rounds.leave_kernel", (1,), rows.done, answer, batch,
        SIZE=power_of_2(batch), num_warps=1,
    )  # fmt: skip


def settle(
    rule: AcceptanceRule,
    rows: RowTensors,
    sums: Tensor,
    target_probs: Tensor,
    draft_probs: Tensor,
    fed: Tensor,
    drafted: Tensor,
) -> Tensor:
    """Verify, draw the next token, append, count; returns how many tokens each row accepted.

    target_probs: [batch, number + 1, vocab]; draft_probs: [batch, number, vocab]; fed: [batch,
    number + 1], the newest token and the drafted ones; sums: a `Tally`'s. `speculation.settled` and
    `Tally.add` are the reference; a rule without kernels verifies by torch.
    """
    (_, number, vocab), kernels = draft_probs.shape, kernels_of(rule)
    laws = target_probs.contiguous(), draft_probs.contiguous()
    if number == 0 or kernels is None:
        verdict = rule.judge(*laws, fed[:, 1:], drafted, rows.random(number, ACCEPT, AUXILIARY))
        sums[:, 3] += verdict.fallback & ~rows.done
        made = Accepted(verdict.accepted, drafted, torch.ones_like(verdict.next_probs[:, 0]))
        mass = verdict.next_probs.contiguous()
        _settle(rows, NextMass(None, None, mass, 0, vocab), made, sums)
        return verdict.accepted
    groups, residual = kernels.sums, None
    classes = laws if groups is None else (groups.coarse(laws[0]), groups.coarse(laws[1]))
    made = accept(kernels, rows, classes, fed, drafted)
    if groups is not None:
        residual = groups.residual(laws, classes, made)
    _settle(rows, NextMass(*laws, residual, number, vocab), made, sums)
    return made.accepted


@dataclass(frozen=True)
class RuleKernels:
    """A rule as the kernels have it (`acceptance.NativeForm`)."""

    beta: float
    sums: GroupSums | None
    block: bool


def kernels_of(rule: AcceptanceRule) -> RuleKernels | None:
    """Return the rule for the kernels, made once; None where torch alone verifies it."""
    if rule not in _kernels:
        form = rule.native()
        if form is None:
            _kernels[rule] = None
        else:
            sums = None if form.groups is None else GroupSums.of(form.groups, form.most_groups)
            _kernels[rule] = RuleKernels(form.beta, sums, form.block)
    return _kernels[rule]


def accept(
    kernels: RuleKernels, rows: RowTensors, classes: Pair, fed: Tensor, drafted: Tensor
) -> Accepted:
    """Decide how many each row accepts, and what its draft is divided by after them (blocks)."""
    batch, number, width = classes[1].shape
    made = Accepted(drafted.new_empty(batch), drafted, classes[0].new_empty(batch))
    sums, groups = kernels.sums, None
    if sums is not None:
        groups = TokenGroups(sums.token_offsets, sums.token_groups, sums.levels, sums.most_groups)
    tile = min(TILE, power_of_2(width))
    launch(
        "rounds.accept_kernel", (batch,),
        arguments_of(rows), Judging(*classes, fed.contiguous(), drafted, width, number),
        _number(kernels.beta, drafted.device), groups, made,
        JUDGING=JudgingConstants(power_of_2(number), kernels.block, MEMBERS, tile), num_warps=4,
    )  # fmt: skip
    return made


def _settle(
    rows: RowTensors, laws: NextMass, made: Accepted | None = None, tally: Tensor | None = None
) -> None:
    """Launch `settle_kernel`."""
    some = laws.mass if laws.target is None else laws.target
    assert some is not None
    batch, counts = len(rows.count), None
    if tally is not None:
        counts = TallySums(tally, (tally.shape[1] - 4) // 2)
    sums, parts = cut(batch, some)
    launch(
        "rounds.settle_kernel", (batch,), arguments_of(rows), laws, made, counts, sums,
        SIZE=power_of_2(4 if tally is None else tally.shape[1]), **parts,
    )  # fmt: skip


@cache
def _number(value: float, device: torch.device) -> Tensor:
    """Return float64 on a device: a plain argument of a kernel is rounded to float32."""
    return torch.tensor(value, dtype=torch.float64, device=device)
