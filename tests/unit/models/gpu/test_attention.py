"""Attention of a step in Triton beside torch's: ragged rows, caches with more than is valid."""

import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from planted import STEPS, finds
from triton_tests import DEVICE, needs_triton, rounded

from speculative_tts.models.gpu.attention import Stored, Turns, _tickets, attend, reference
from speculative_tts.models.gpu.norms import rotate
from speculative_tts.models.gpu.tiles import AttentionHeads, AttentionTile

pytestmark = needs_triton
CAPACITY = 70


def normed(heads: AttentionHeads) -> Turns:
    """Turns behind norms whose gains differ from head to head and from entry to entry."""
    g = torch.Generator().manual_seed(8)
    gains = 1 + rounded(heads.heads + heads.kv_heads, heads.head_dim, generator=g)
    return Turns(table(heads.head_dim), gains, 0.5)


def table(head_dim: int) -> torch.Tensor:
    angles = torch.rand(CAPACITY, head_dim // 2, generator=torch.Generator().manual_seed(9)) * 6
    return torch.stack([angles.cos(), angles.sin()], -1).flatten(1).to(DEVICE)


def error(
    heads: AttentionHeads,
    starts: list[int],
    new: int,
    splits: int,
    turns: Turns | None = None,
    *,
    garbage: float = 3e4,
) -> float:
    """Return the larger of what outputs and caches differ by from the reference's.

    What lies beyond the valid positions is garbage, as a rollback leaves it.
    """
    g, batch = torch.Generator().manual_seed(0), len(starts)
    fused = rounded(batch * new, (heads.heads + 2 * heads.kv_heads) * heads.head_dim, generator=g)
    shape = 2, batch, heads.kv_heads, CAPACITY, heads.head_dim
    own, others = (garbage + torch.zeros(shape, device=DEVICE) for _ in range(2))
    for row, start in enumerate(starts):
        valid = rounded(2, heads.kv_heads, start, heads.head_dim, generator=g)
        own[:, row, :, :start] = others[:, row, :, :start] = valid
    start, turns = torch.tensor(starts, device=DEVICE), turns or Turns(table(heads.head_dim))
    said = attend(heads, fused, Stored(*own), turns, start, tile=AttentionTile(splits, 16, 4))
    exact = reference(heads, fused, Stored(*others), turns, start)
    assert not _tickets(DEVICE).any()
    return float(max((said - exact).abs().max(), (own - others).abs().max()))


@st.composite
def cases(draw: st.DrawFn) -> tuple[AttentionHeads, list[int], int, int, Turns | None]:
    kv = draw(st.integers(1, 3))
    heads = AttentionHeads(kv * draw(st.integers(1, 3)), kv, draw(st.sampled_from([2, 6, 16, 20])))
    new = draw(st.integers(1, 5))
    starts = draw(st.lists(st.integers(0, CAPACITY - new), min_size=1, max_size=2))
    turns = normed(heads) if draw(st.booleans()) else None
    return heads, starts, new, draw(st.sampled_from([0, 1, 3])), turns


@examples(6)
@given(cases())
def test_attention_is_the_references(
    case: tuple[AttentionHeads, list[int], int, int, Turns | None],
) -> None:
    assert error(*case) < 2e-5


def test_an_empty_cache_and_a_full_one() -> None:
    assert error(AttentionHeads(2, 1, 16), [0, CAPACITY - 1], 1, 2) < 2e-5


FAULTS = [
    ("(j[None, :] <= new[:, None])", "(j[None, :] < new[:, None])"),  # does not see itself
    ("(j[None, :] <= new[:, None])", "(j[None, :] <= new[:, None] + 1)"),  # sees the next
    ("there = column < last", "there = column <= last"),  # sees what a rollback left
    ("there = column < last", "there = column < last - 1"),  # misses the newest old column
    ("    tl.store(past.past_keys + to, k, mask=mine)\n", ""),  # leaves the cache stale
    ("past_values + to, v, mask=mine)", "past_values + to + D, v, mask=mine)"),
    ("(part + 1) * span, begin)", "(part + 1) * span - 1, begin)"),  # a gap between parts
    ("((begin + new) * D)[:, None]", "((begin + new + 1) * D)[:, None]"),  # turned too far
    ("for part in tl.static_range(PARTS)", "for part in tl.static_range(PARTS - 1)"),
    ("shrink, weight = tl.exp(peak - higher), tl.exp(level - higher)",
     "shrink, weight = tl.exp(peak - higher), tl.exp(level - level)"),  # parts weigh the same
    ("tl.sqrt(tl.sum(x * x, 1) + floor2)", "tl.sqrt(tl.sum(x * x, 1) + 2 * floor2)"),
    ("x = x / tl.sqrt(tl.sum(x * x, 1) + floor2)[:, None] * gain",
     "x = x / tl.sqrt(tl.sum(x * x, 1) + floor2)[:, None]"),
    ("gains + (HEADS + kv) * D + d", "gains + kv * D + d"),  # a query's gains for a key
]  # fmt: skip


def differs() -> bool:
    heads = AttentionHeads(2, 1, 16)
    try:
        return error(heads, [37], 2, 2, normed(heads), garbage=3.0) > 2e-4
    finally:
        _tickets(DEVICE).zero_()


test_a_planted_fault_is_found = finds([("attention", *fault, differs) for fault in FAULTS], STEPS)


@pytest.mark.parametrize("with_norms", [False, True])
@pytest.mark.parametrize("heads", [AttentionHeads(4, 2, 6), AttentionHeads(3, 3, 16)])
def test_a_prefill_turns_and_stores_what_a_step_does(
    heads: AttentionHeads, with_norms: bool
) -> None:
    """Rows of the cache are chosen by number: a stream fills one of many."""
    g, new, rows = torch.Generator().manual_seed(4), 3, [2, 0]
    h, kv, d = heads
    turns = normed(heads) if with_norms else Turns(table(d))
    fused = rounded(2 * new, (h + 2 * kv) * d, generator=g)
    own, others = torch.zeros(2, 2, 3, kv, CAPACITY, d, device=DEVICE)
    ordered = Stored(*others[:, rows].unbind())
    reference(heads, fused, ordered, turns, torch.zeros(2, dtype=torch.int64))
    others[:, rows] = torch.stack(ordered)
    turned = fused.clone()
    rotate(heads, turned, Stored(*own), turns, torch.tensor(rows, device=DEVICE))
    assert torch.allclose(own, others, atol=1e-6)
    angle = torch.view_as_complex(table(d)[:new].view(new, 1, d // 2, 2)).repeat(2, 1, 1)
    given = turns.normed(fused.view(2 * new, -1, d)[:, : h + kv])
    pairs = torch.view_as_complex(given.reshape(2 * new, -1, d // 2, 2).contiguous())
    exact = torch.view_as_real(pairs * angle).flatten(-2)
    assert torch.allclose(turned.view(2 * new, -1, d)[:, : h + kv], exact, atol=1e-5)
    assert torch.equal(
        turned.view(2 * new, -1, d)[:, h + kv :], fused.view(2 * new, -1, d)[:, h + kv :]
    )
