"""Rounds by kernels: inputs, drafted tokens, acceptance, and the token that follows.

Each function says which torch code is its reference. All work on the tensors of a `BatchState`, in
place, and read nothing of the device's.
"""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from speculative_tts.decoding.gpu.groups import GroupSums
from speculative_tts.decoding.gpu.launch import launch
from speculative_tts.decoding.rules.acceptance import AcceptanceRule
from speculative_tts.models.gpu.triton_runtime import power_of_2

if TYPE_CHECKING:
    from speculative_tts.decoding.batch import BatchState
    from speculative_tts.decoding.outcome import Tally

Pair = tuple[Tensor, Tensor]
_kernels: "WeakKeyDictionary[AcceptanceRule, RuleKernels | None]" = WeakKeyDictionary()
PURPOSES = (1, 2)  # ACCEPT and AUXILIARY of `randomness`, which imports this module
LINE = 256  # probabilities whose sum is looked at as one
TILE = 2048
MEMBERS = 16  # of a token or group, read at a time


def draw(probs: Tensor, uniform: Tensor) -> Tensor:
    """`randomness.draw`: a token of each row of probs [..., vocab]: int64 [...]."""
    out = torch.empty(probs.shape[:-1], dtype=torch.int64, device=probs.device)
    sums, cut = _cut(out.numel(), probs)
    given = (probs.contiguous(), uniform.contiguous(), out, sums, probs.shape[-1])
    launch("rounds.draw_kernel", (out.numel(),), *given, **cut)
    return out


def inputs(
    rows: "BatchState", lengths: Tensor, behind: int, ahead: int, lookahead: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """`BatchState.inputs`."""
    batch, number = len(rows.count), behind + ahead
    ids, positions = (rows.count.new_empty(batch, n) for n in (number, ahead + 1))
    start, room, newest = rows.count.new_empty(3, batch).unbind()
    launch(
        "rounds.inputs_kernel", (batch,),
        rows.tokens, rows.count, lengths, rows.done, rows.limit,
        ids, start, positions, room, newest,
        rows.tokens.stride(0), len(rows.ends) - 1, -behind, number, ahead + 1, lookahead,
        SIZE=power_of_2(number), num_warps=1,
    )  # fmt: skip
    return ids, start, positions, room, newest


def drafted(
    rows: "BatchState", lengths: Tensor, probs: Tensor, step: int, drafted: Tensor,
    entropy: float | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`Drafts.add`: the next ids [batch, 1], where they go, and the position they are drawn for.

    `drafted` is changed.
    """
    batch, vocab = len(probs), probs.shape[-1]
    ids, start, position = rows.count.new_empty(3, batch).unbind()
    sums, cut = _cut(batch, probs)
    launch(
        "rounds.drafted_kernel", (batch,),
        probs.contiguous(), rows.tokens, rows.count, lengths, rows.uniforms, rows.ends, drafted,
        ids, start, position, sums, step, rows.tokens.stride(0), vocab, entropy or 0.0,
        DOUBTS=entropy is not None, **cut,
    )  # fmt: skip
    return ids[:, None], start, position[:, None]


def emit(rows: "BatchState", probs: Tensor) -> None:
    """Draw one more token of each row from probs [batch, vocab] and append it."""
    _settle(rows, probs.contiguous())


def renew(rows: "BatchState") -> None:
    """`BatchState.renew` of rows whose rounds have uniforms of their own."""
    again = rows.again.shape[2]
    launch(
        "rounds.renew_kernel", (len(rows.count),),
        rows.uniforms, rows.again, rows.count, rows.tokens.stride(0),
        AGAIN=again, SIZE=power_of_2(4 * again), num_warps=1,
    )  # fmt: skip


def settle(
    rule: AcceptanceRule,
    rows: "BatchState",
    tally: "Tally",
    target_probs: Tensor,
    draft_probs: Tensor,
    fed: Tensor,
    drafted: Tensor,
) -> Tensor:
    """Verify, draw the next token, append, count; returns how many tokens each row accepted.

    target_probs: [batch, number + 1, vocab]; draft_probs: [batch, number, vocab]; fed: [batch,
    number + 1], the newest token and the drafted ones. `speculation.settled` and `Tally.add` are
    the reference; a rule without kernels verifies by torch.
    """
    number, kernels = draft_probs.shape[1], kernels_of(rule)
    laws = target_probs.contiguous(), draft_probs.contiguous()
    if number == 0 or kernels is None:
        verdict = rule.judge(*laws, fed[:, 1:], drafted, rows.random(number, *PURPOSES))
        tally.sums[:, 3] += verdict.fallback & ~rows.done
        made = verdict.accepted, drafted, torch.ones_like(verdict.next_probs[:, 0])
        _settle(rows, verdict.next_probs.contiguous(), made, tally)
        return verdict.accepted
    sums = kernels.sums
    classes = laws if sums is None else (sums.coarse(laws[0]), sums.coarse(laws[1]))
    accepted, scale = accept(kernels, rows, classes, fed, drafted)
    made = accepted, drafted, scale
    mass = None if sums is None else sums.residual(laws, classes, made)
    _settle(rows, mass, made, tally, laws)
    return accepted


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
    kernels: RuleKernels, rows: "BatchState", classes: Pair, fed: Tensor, drafted: Tensor
) -> Pair:
    """Return how many each row accepts, and what its draft is divided by after them (blocks)."""
    batch, number, width = classes[1].shape
    accepted, scale = drafted.new_empty(batch), classes[0].new_empty(batch)
    sums = kernels.sums
    lists = (fed,) * 3 if sums is None else (sums.token_offsets, sums.token_groups, sums.levels)
    launch(
        "rounds.accept_kernel", (batch,),
        *classes, fed.contiguous(), drafted, rows.count, rows.uniforms,
        _number(kernels.beta, drafted.device), *lists, accepted, scale,
        rows.tokens.stride(0), width, number, 0 if sums is None else sums.most_groups,
        SIZE=power_of_2(number), GROUPS=sums is not None, BLOCK=kernels.block,
        MEMBERS=MEMBERS, TILE=min(TILE, power_of_2(width)), num_warps=4,
    )  # fmt: skip
    return accepted, scale


def _settle(
    rows: "BatchState",
    mass: Tensor | None,
    made: tuple[Tensor, Tensor, Tensor] | None = None,
    tally: "Tally | None" = None,
    laws: Pair | None = None,
) -> None:
    """Launch `settle_kernel`; what it has no use for is any tensor."""
    some = mass if laws is None else laws[0]
    assert some is not None
    batch, lookahead = len(rows.count), 0 if tally is None else tally.lookahead
    sums, cut = _cut(batch, some)
    launch(
        "rounds.settle_kernel", (batch,),
        *(laws or (some, some)), some if mass is None else mass, *(made or (rows.count,) * 3),
        rows.tokens, rows.count, rows.done, rows.limit, rows.ends, rows.uniforms,
        rows.count if tally is None else tally.sums, sums,
        rows.tokens.stride(0), some.shape[-1], 0 if laws is None else laws[1].shape[1], lookahead,
        DRAFTED=made is not None, RESIDUAL=mass is None, RETRY=laws is not None,
        SIZE=power_of_2(4 + 2 * lookahead), **cut,
    )  # fmt: skip


def pick(x: Tensor, index: Tensor) -> Tensor:
    """x[row, index[row]] of x [batch, number, width]: [batch, width]."""
    batch, number, width = x.shape
    out, tile = x.new_empty(batch, width), min(1024, power_of_2(width))
    grid = (batch, -(-width // tile))
    launch("rounds.pick_kernel", grid, x.contiguous(), index, out, number, width, TILE=tile)
    return out


def _cut(rows: int, probs: Tensor) -> tuple[Tensor, dict[str, int]]:
    """Scratch memory for sums of lines, and how a program cuts the vocabulary."""
    lines = power_of_2(-(-probs.shape[-1] // LINE))
    sums = torch.empty(rows * lines, dtype=torch.float64, device=probs.device)
    at_once = min(lines, 16)
    return sums, {"LINES": at_once, "LINE": LINE, "ALL": lines, "num_warps": 8}


@cache
def _number(value: float, device: torch.device) -> Tensor:
    """float64 on a device: an argument of a kernel is rounded to float32."""
    return torch.tensor(value, dtype=torch.float64, device=device)
