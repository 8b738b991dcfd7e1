"""Kernels of a path search beside torch's, interpreted where there is no GPU."""

from functools import partial

import pytest
import torch
from planted import finds
from static_loops import moved
from torch import Tensor
from triton_tests import DEVICE, needs_triton

from speculative_tts.decoding.batch import BatchState, Size
from speculative_tts.decoding.blocks.choosers import ViterbiHeads
from speculative_tts.decoding.blocks.transitions import (
    IMPOSSIBLE,
    DenseTransitions,
    SparseTransitions,
    Transitions,
)
from speculative_tts.decoding.blocks.viterbi import PathSearch
from speculative_tts.decoding.gpu.launch import everywhere
from speculative_tts.models import host

pytestmark = needs_triton
VOCAB, BATCH, NUMBER, CAPACITY = 14, 4, 3, 12
STOPS = (VOCAB - 2, VOCAB - 1)
KINDS = {  # best or drawn, ids of all heads, the code before, an end that is sure, transitions
    "best": (False, True, True, False, "dense"),
    "best, own candidates": (False, False, False, False, "sparse"),
    "drawn": (True, True, False, False, "dense"),
    "drawn, sure end": (True, True, True, True, "sparse"),
    "drawn, own candidates": (True, False, True, False, "dense"),
}


def transitions(kind: str) -> Transitions:
    """Logarithms of which one pair is impossible; as a table, or some seen pairs."""
    g = torch.Generator().manual_seed(2)
    logs = 1.5 * torch.randn(VOCAB, VOCAB, generator=g)
    logs[1, 1] = logs[:, list(STOPS)] = logs[list(STOPS)] = IMPOSSIBLE
    if kind == "dense":
        return DenseTransitions(logs, VOCAB - len(STOPS))
    keys = torch.rand(VOCAB, VOCAB, generator=g).lt(0.3).flatten().nonzero()[:, 0]
    row, column = logs[0].clone(), logs[3].clone()
    return SparseTransitions(keys, logs.flatten()[keys], row, column, VOCAB - len(STOPS))


def case(kind: str, seed: int) -> tuple[ViterbiHeads, Tensor, BatchState]:
    """Ragged rows before and after their minimum, one of them done; ends that are likely."""
    sample, union, boundary, sure, table = KINDS[kind]
    g = torch.Generator().manual_seed(seed)
    rows = BatchState(Size(BATCH, CAPACITY, CAPACITY), STOPS, VOCAB, torch.device("cpu"))
    rows.count.copy_(torch.tensor([1, 4, 6, 2]))
    rows.stop.minimum.copy_(torch.tensor([3, 0, 7, 0]))
    rows.limit.fill_(CAPACITY)
    rows.tokens.copy_(torch.randint(VOCAB - 2, rows.tokens.shape, generator=g))
    rows.uniforms.copy_(torch.rand(rows.uniforms.shape, generator=g))
    search = PathSearch(transitions(table), 3, union, boundary)
    heads = ViterbiHeads(
        search, rows.stop, temperature=1.3, sample=sample, end_when_likeliest=sure
    )  # fmt: skip
    logits = 2 * torch.randn(BATCH, NUMBER, VOCAB, generator=g)
    logits[1, 1, STOPS[1]] += 4
    logits[3, 2] = float("nan")
    if seed % 2:  # all candidates' ways are impossible: the pair that no path may take
        logits[0] = IMPOSSIBLE
        logits[0, :, 1] = 9.0
    return heads, logits, rows


def blocks(kind: str, seed: int, *, prompted: bool) -> tuple[list[Tensor], list[Tensor]]:
    """A block by kernels and by torch; prompted: with the prompt's last codes, or none."""
    heads, logits, rows = case(kind, seed)
    before = torch.tensor([3, -1, 5, -1]) if prompted else None
    with host.fixed():
        wanted = heads(logits, rows, before)
    moved_ = (moved(x, DEVICE) for x in (heads, logits, rows, before))
    by, given, twin, last = moved_
    with everywhere():
        found = by(given, twin, last)
    assert wanted.dead is not None
    return [found.tokens.cpu(), found.dead.cpu()], [wanted.tokens, wanted.dead]


def drafts(kind: str, seed: int) -> tuple[list[Tensor], list[Tensor]]:
    """Laws and tokens of a draft by kernels and by torch; of rows with a law."""
    heads, logits, rows = case(kind, seed)
    by, given, twin = (moved(x, DEVICE) for x in (heads, logits, rows))
    with host.fixed():
        laws = heads.draft(logits, rows)
    with everywhere():
        own = by.draft(given, twin)
    return [own[:3].cpu(), twin.tokens[:3].cpu()], [laws[:3], rows.tokens[:3]]


def alike(found: list[Tensor], wanted: list[Tensor]) -> bool:
    return all(torch.allclose(one.double(), other.double(), atol=1e-5)
               for one, other in zip(found, wanted, strict=True))  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "seed"), [*((kind, 2) for kind in KINDS), ("best", 1), ("drawn, sure end", 1)]
)
def test_blocks_are_torchs(kind: str, seed: int) -> None:
    """Up to the first token without a law, which ends an utterance."""
    found, wanted = blocks(kind, seed, prompted=seed == 2)
    nothing = (wanted[0] == VOCAB).cumsum(1) > 0
    assert torch.equal(found[0] == VOCAB, wanted[0] == VOCAB)
    usual = ~nothing.any(1)
    assert alike([one[usual] for one in found], [one[usual] for one in wanted])


@pytest.mark.parametrize("kind", KINDS)
def test_drafts_are_torchs(kind: str) -> None:
    assert alike(*drafts(kind, 1))


FAULTS = [
    ("lattice", "(every[None, :] < own[:, None])", "(every[None, :] <= own[:, None])", "best"),
    ("lattice", "(j[None, :] < i[:, None])", "(j[None, :] <= i[:, None])", "best"),
    ("lattice", "tl.where(below, middle + 1, low)", "tl.where(below, middle, low)",
     "drawn, sure end"),
    ("lattice", "x += tl.where(last >= 0, step, 0.0)", "x += step * 0.0", "best"),
    ("lattice", "s, mask=s < stops.n_stops", "s, mask=s < stops.n_stops - 1", "best"),
    ("lattice", "sums > level", "sums >= level - 1.0", "drawn"),
    ("paths", "back + t * SIZE + state", "back + (t - 1) * SIZE + state", "drawn"),
    ("paths", "uniform + (t - 1) * DRAWS + NEXT", "uniform + t * DRAWS + NEXT", "drawn"),
    ("paths", "(t - 1) % 2 * SIZE + j", "t % 2 * SIZE + j", "best"),
    ("paths", "tl.maximum(gone, tl.load(said.over", "tl.maximum(0.0, tl.load(said.over", "drawn"),
    ("paths", "messages + (t + 1) * SIZE + j", "messages + (number - 1) * SIZE + j", "drawn"),
]  # fmt: skip


def differs(kind: str) -> bool:
    tried = (lambda: drafts(kind, 0), lambda: blocks(kind, 4, prompted=False),
             lambda: drafts(kind, 1))  # fmt: skip
    pairs = (one() for one in tried)
    return not all(alike([x[:3] for x in a], [x[:3] for x in b]) for a, b in pairs)


test_a_planted_fault_is_found = finds((*fault, partial(differs, kind)) for *fault, kind in FAULTS)
