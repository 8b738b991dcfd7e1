"""Kernels of drafted and committed blocks beside torch's, interpreted where there is no GPU."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from decoders import requests
from planted import finds
from static_loops import moved
from torch import Tensor
from triton_tests import DEVICE, needs_triton

from speculative_tts.decoding.batch import BatchState, Size
from speculative_tts.decoding.drafters.drafter import room, up_to_stop
from speculative_tts.decoding.drafters.drafts import Drafts
from speculative_tts.decoding.drafters.lookup import LookupDrafter, LookupDrafting
from speculative_tts.decoding.gpu import blocks, draws
from speculative_tts.decoding.gpu.launch import everywhere
from speculative_tts.decoding.sampling.randomness import DRAFT, draw
from speculative_tts.decoding.sampling.sampler import Sampler

pytestmark = needs_triton
VOCAB, BATCH, NUMBER, CAPACITY, HEARD = 12, 6, 4, 20, 9
Both = Callable[[int], tuple[list[Tensor], list[Tensor]]]  # by kernels, by torch
CPU = torch.device("cpu")
STOPS = (VOCAB - 2, VOCAB - 1)


def rows_of(seed: int) -> BatchState:
    """Ragged rows: one done, one near its limit, one that draws a stop id next."""
    random = torch.Generator().manual_seed(seed)
    rows = BatchState(Size(BATCH, CAPACITY, CAPACITY), STOPS, VOCAB, CPU)
    rows.count.copy_(torch.tensor([1, 5, 9, 2, 7, 12]))
    rows.limit.copy_(torch.tensor([20, 20, 11, 20, 20, 20]))
    rows.done[3] = True
    rows.uniforms.copy_(torch.rand(rows.uniforms.shape, generator=random))
    rows.tokens.copy_(torch.randint(VOCAB - 2, rows.tokens.shape, generator=random))
    rows.tokens[4, 8] = STOPS[0]
    return rows


def alike(found: list[Tensor], wanted: list[Tensor]) -> bool:
    return all(torch.equal(one.cpu(), other) for one, other in zip(found, wanted, strict=True))


def state_of(rows: BatchState) -> list[Tensor]:
    """Counts, ends and the tokens that count."""
    inside = torch.arange(CAPACITY) < rows.count[:, None].cpu()
    return [rows.count.cpu(), rows.done.cpu(), torch.where(inside, rows.tokens.cpu(), 0)]


def committed(seed: int) -> tuple[list[Tensor], list[Tensor]]:
    """A block by the kernel and by torch: one with a stop id, one beyond its limit, one dead."""
    block = torch.randint(VOCAB - 2, (BATCH, NUMBER), generator=torch.Generator().manual_seed(seed))
    block[1, 2] = block[0, 0] = STOPS[1]
    block[5, 1] = VOCAB  # no distribution
    dead = torch.tensor([False, True, False, True, False, False])
    rows, twin = rows_of(seed), moved(rows_of(seed), DEVICE)
    made, lost = torch.zeros(2, BATCH, dtype=torch.int64, device=DEVICE)
    blocks.commit(twin, block.to(DEVICE), dead.to(DEVICE), made, lost)
    going = ~rows.done
    rows.commit(block)
    counts = [made, lost]
    return [*state_of(twin), *counts], [*state_of(rows), going.long(), (dead & going).long()]


def drafts(seed: int) -> tuple[list[Tensor], list[Tensor]]:
    """Draws from laws of their own and how many count, by kernels and by torch."""
    laws = torch.rand(BATCH, NUMBER, VOCAB, generator=torch.Generator().manual_seed(seed)) ** 4
    laws = laws / laws.sum(-1, keepdim=True)
    rows, twin = rows_of(seed), moved(rows_of(seed), DEVICE)
    tokens = blocks.write_draws(twin, laws.to(DEVICE), 0, DRAFT)
    positions = rows.positions(NUMBER)
    wanted = draw(laws, rows.uniform(positions, DRAFT))
    rows.tokens.scatter_(1, positions, wanted)
    counts = up_to_stop(rows, room(rows, NUMBER), NUMBER)
    return [tokens, twin.tokens, blocks.drafted(twin, NUMBER)], [wanted, rows.tokens, counts]


def passes(seed: int) -> tuple[list[Tensor], list[Tensor]]:
    """Two tokens of a second model, one after the other, some of which it doubts."""
    logits = 2 * torch.randn(2, BATCH, VOCAB, generator=torch.Generator().manual_seed(seed))
    lengths = torch.arange(BATCH)

    def after(rows: BatchState, lengths: Tensor, logits: Tensor) -> list[Tensor]:
        drafts = Drafts(rows, lengths, NUMBER, doubt=1.6)
        for one in logits:
            drafts.add(Sampler(), one)
        return [drafts.ids, drafts.start, drafts.drafted, rows.tokens]

    given = rows_of(seed), lengths, logits
    with everywhere():
        found = after(*(moved(one, DEVICE) for one in given))
    return found, after(*given)


def lone_draws(seed: int) -> tuple[list[Tensor], list[Tensor]]:
    """Draws of rows wider than the lines whose sums are searched first."""
    random = torch.Generator().manual_seed(seed)
    probs = torch.rand(BATCH, 600, generator=random).softmax(-1)
    uniform = torch.rand(BATCH, dtype=torch.float64, generator=random)
    return [draws.draw(probs.to(DEVICE), uniform.to(DEVICE))], [draw(probs, uniform)]


def lookups(seed: int) -> tuple[list[Tensor], list[Tensor]]:
    """Prompts and speech of few ids, so that much was said before; one row has heard nothing."""
    random = torch.Generator().manual_seed(seed)
    size = Size(BATCH, HEARD, CAPACITY)
    drafting = LookupDrafting(LookupDrafter(VOCAB, CPU), size)
    heard = [(), *torch.randint(4, (BATCH - 1, HEARD - 2), generator=random).tolist()]
    drafting.load(
        [
            replace(asked, prompt_tokens=tuple(ids))
            for asked, ids in zip(requests(BATCH), heard, strict=True)
        ]
    )
    rows = rows_of(seed)
    rows.tokens.copy_(torch.randint(4, rows.tokens.shape, generator=random))
    rows.tokens[4, 4] = STOPS[0]
    other, twin = moved(drafting, DEVICE), moved(rows, DEVICE)
    with everywhere():
        counts, laws = other.propose(twin, Sampler(), NUMBER)
    wanted, exact = drafting.propose(rows, Sampler(), NUMBER)
    some, any_ = exact.shape[1], (wanted > 0)[:, None, None]  # as many as some row needs
    return [counts, laws[:, :some].cpu() * any_], [wanted, exact * any_]


@pytest.mark.parametrize("both", [committed, drafts, passes, lone_draws, lookups])
@pytest.mark.parametrize("seed", range(3))
def test_blocks_are_torchs(both: Both, seed: int) -> None:
    assert alike(*both(seed))


FAULTS = [
    (committed, "tl.minimum(now + tl.minimum(first, number), most)", "now + first"),
    (committed, "tl.where(over, now, grown)", "grown"),
    (committed, "i + 1, number + 1), 0)\n    most", "i, number + 1), 0)\n    most"),
    (drafts, "at * DRAWS + PURPOSE", "(at + 1) * DRAWS + PURPOSE"),
    (drafts, "tl.load(rows.limit + b) - now - 1", "tl.load(rows.limit + b) - now"),
    (drafts, "i + 1, number + 1), 0)\n    room", "i + 2, number + 1), 0)\n    room"),
    (lookups, "alike = place < newest", "alike = place <= newest"),
    (lookups, "run * length + place", "run * length - place"),
    (lookups, "place - before", "place - before + 1"),
    (lookups, "i % period", "i"),
]
ROUND_FAULTS = [
    (passes, "tl.load(rows.committed + b) + step", "tl.load(rows.committed + b)"),
    (passes, "tl.minimum(most, step + 1)", "tl.minimum(most, step)"),
    (passes, "+ DRAFT)", "+ NEXT)"),
    (passes, "vocab, CUT) > entropy", "vocab, CUT) < entropy"),
    (passes, "tl.load(lengths + b) + place)", "tl.load(lengths + b) + step)"),
    (lone_draws, "tl.load(uniform + row)", "tl.load(uniform)"),
    (lone_draws, "tl.sum(tl.where(tl.arange(0, ALL) < line, totals, 0.0), 0)", "0.0"),
    (lone_draws, "first + line)[:, None] * LINE", "first + line)[:, None] * (LINE - 1)"),
]


def differs(both: Both) -> bool:
    return not all(alike(*both(seed)) for seed in range(3))


test_a_planted_fault_is_found = finds(
    (module, right, wrong, partial(differs, both))
    for module, faults in (("blocks", FAULTS), ("rounds", ROUND_FAULTS))
    for both, right, wrong in faults
)
