"""Kernels between products beside torch's, and faults planted in them."""

import torch
import torch.nn.functional as F  # noqa: N812
from planted import STEPS, finds
from triton_tests import DEVICE, needs_triton, rounded

from speculative_tts.models.gpu.attention import Stored, Turns
from speculative_tts.models.gpu.norms import gated, gathered, normed, rotate
from speculative_tts.models.gpu.tiles import AttentionHeads

pytestmark = needs_triton
HIDDEN = 37


def norms() -> float:
    """How far a sum, its norm, a gate and rows of a table are from torch's."""
    g = torch.Generator().manual_seed(0)
    x, addend = rounded(3, HIDDEN, generator=g), rounded(3, HIDDEN, generator=g)
    gain, wide = rounded(HIDDEN, generator=g), rounded(3, 2 * HIDDEN, generator=g)
    total, out = normed(x, 0.5, addend, gain)
    exact = x + addend
    scaled = exact / (exact.square().sum(-1, keepdim=True) + 0.5).sqrt() * gain
    gate = F.silu(wide[:, :HIDDEN]) * wide[:, HIDDEN:]
    ids = torch.tensor([[2, 0]], device=DEVICE)
    pairs = ((total, exact), (out, scaled), (gated(wide), gate), (gathered(ids, x), x[ids]))
    return max(float((one - other).abs().max()) for one, other in pairs)


def turns() -> float:
    """How far a prefill's keys in a cache are from turned ones; values are copied."""
    g, heads = torch.Generator().manual_seed(1), AttentionHeads(2, 1, 6)
    angle = torch.rand(4, 3, generator=g)
    table = torch.stack([angle.cos(), angle.sin()], -1).flatten(1).to(DEVICE)
    fused, cache = rounded(4, 24, generator=g), torch.zeros(2, 1, 1, 8, 6, device=DEVICE)
    keys, values = fused[:, 12:18].clone(), fused[:, 18:].clone()
    rotate(heads, fused, Stored(*cache), Turns(table), torch.zeros(1, dtype=torch.int64).to(DEVICE))
    turned = torch.view_as_complex(keys.view(4, 3, 2)) * torch.polar(torch.ones(4, 3), angle).to(
        DEVICE
    )
    exact = torch.view_as_real(turned).flatten(1)
    wrong = [cache[0, 0, 0, :4] - exact, cache[1, 0, 0, :4] - values, cache[:, 0, 0, 4:]]
    return max(float(one.abs().max()) for one in wrong)


def test_they_are_torchs() -> None:
    assert norms() < 1e-5
    assert turns() < 1e-5


FAULTS = [
    ("norm", "tl.load(x + row + k, mask=k < K", "tl.load(x + row + k, mask=k < K - 1", norms),
    ("norm", "tl.sum(y * y, 0) + norm.floor2", "tl.sum(y * y, 0)", norms),
    ("norm", "row * 2 * N + i, mask=i < N", "row * 2 * N + i, mask=i < N - 1", norms),
    ("norm", "wide + row * 2 * N + N + i", "wide + row * 2 * N + N - 1 + i", norms),
    ("norm", "tl.load(ids + row).to(tl.int64) * K", "row * K", norms),
    ("attention", "+ place)[:, None] * D", "+ place + 1)[:, None] * D", turns),
    ("attention", "turns + place * D", "turns + 0 * place * D", turns),
]
test_a_planted_fault_is_found = finds(
    [(*fault, lambda of=of: of() > 1e-3) for *fault, of in FAULTS], STEPS
)
