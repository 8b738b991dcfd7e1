"""Products of few rows in Triton beside torch's."""

import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from planted import STEPS, finds
from triton_tests import DEVICE, needs_triton, rounded

from speculative_tts.models.gpu.products import Fused, halves, product, reference
from speculative_tts.models.gpu.tiles import GemvTile, HeldTile, Product, RowsTile

pytestmark = needs_triton
TILES = (
    *(GemvTile(2, 1), GemvTile(4, 2), RowsTile(16, 16, 1, 2), RowsTile(16, 32, 2, 3)),
    *(HeldTile(16, 16, 2), HeldTile(32, 32, 1)),
)


def error(
    rows: int, n: int, k: int, tile: Product, *, norm: bool = True, bias: bool = True,
    add: bool = True, gated: bool = False, seed: int = 0,
) -> float:  # fmt: skip
    """Return how far a product is from the reference, relative to its size."""
    g = torch.Generator().manual_seed(seed)
    x, weight = rounded(rows, k, generator=g), rounded(n * (1 + gated), k, generator=g)
    fused = Fused(
        rounded(len(weight), generator=g) if bias else None,
        rounded(rows, n, generator=g) if add else None,
        0.5 if norm else None,
        gated,
    )
    exact = reference(x.double(), weight, fused)
    return float((product(x, weight, fused, tile=tile) - exact).norm() / exact.norm())


@examples(12)
@given(
    st.integers(1, 16), st.integers(1, 40), st.integers(1, 70), st.sampled_from(TILES),
    st.booleans(), st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip
def test_a_product_is_the_references(
    rows: int, n: int, k: int, tile: Product, norm: bool, bias: bool, add: bool, gated: bool
) -> None:
    rows = min(rows, 4) if isinstance(tile, GemvTile) else rows
    assert error(rows, n, k, tile, norm=norm, bias=bias, add=add, gated=gated) < 1e-5


@pytest.mark.parametrize("tile", [GemvTile(2, 2), RowsTile(16, 32, 2, 2), HeldTile(16, 16, 2)])
def test_a_row_does_not_depend_on_the_others(tile: Product) -> None:
    g = torch.Generator().manual_seed(1)
    x, weight = rounded(4, 48, generator=g), rounded(20, 48, generator=g)
    fused = Fused(floor2=0.1)
    alone = product(x[2:3].contiguous(), weight, fused, tile=tile)
    assert torch.equal(product(x, weight, fused, tile=tile)[2:3], alone)


WHOLE = "at + k1[None, :], mask=n_in & (k1 < {})[None, :]"


FAULTS = [
    (WHOLE.format("K"), WHOLE.format("K - 1"), 100, GemvTile(2, 1)),
    ("k2 = B1 + tl.arange(0, B2)", "k2 = B1 - 1 + tl.arange(0, B2)", 160, GemvTile(2, 1)),
    (
        "w_in = n_in & (k0 + k < K)",
        "w_in = n_in & (k0 + k < K - 1)",
        40,
        RowsTile(16, 32, 1, 2),
    ),
    ("at + k0, mask=w_in", "at, mask=w_in", 40, RowsTile(16, 32, 1, 2)),
    ("m[:, None] == m[None, :]", "m[:, None] <= m[None, :]", 40, RowsTile(16, 32, 1, 2)),
    ("BK)[None, :, None]", "BK)[None, :, None] + 1", 40, HeldTile(16, 16, 2)),
    ("at + first, mask=inside", "at, mask=inside", 80, HeldTile(16, 16, 2)),
    ("squared += fed", "squared = fed", 80, HeldTile(16, 16, 2)),
]
SHOWN = sorted({(k, tile) for *_, k, tile in FAULTS}, key=str)


@pytest.mark.parametrize(("k", "tile"), SHOWN)
def test_products_that_show_faults_are_near_without_one(k: int, tile: Product) -> None:
    assert error(3, 5, k, tile) < 1e-5


test_a_planted_fault_is_found = finds(
    [
        ("product", *fault, lambda k=k, tile=tile: error(3, 5, k, tile) > 1e-3)
        for *fault, k, tile in FAULTS
    ],
    STEPS,
)


@pytest.mark.parametrize("k", [1, 2, 100, 128, 129, 192, 896, 1536, 4864, 14336])
def test_halves_hold_all_inputs(k: int) -> None:
    first, second = halves(k)
    assert first + second >= k
    assert second <= first
    assert all(part & (part - 1) == 0 for part in (first, second))
    assert first + second <= max(2 * k, 128)


def test_what_does_not_fit_is_refused() -> None:
    g = torch.Generator().manual_seed(0)
    with pytest.raises(AssertionError):
        product(rounded(17, 8, generator=g), rounded(4, 8, generator=g))
    with pytest.raises(AssertionError):
        product(rounded(1, 8, generator=g), rounded(4, 8, generator=g).bfloat16())


@pytest.mark.skipif(DEVICE.type == "cpu", reason="the interpreter computes bfloat16 wrongly")
@pytest.mark.parametrize("tile", TILES)
def test_bfloat16_is_rounded_once(tile: Product) -> None:
    g = torch.Generator().manual_seed(3)
    x, weight = (rounded(n, 200, generator=g).bfloat16() for n in (3, 50))
    exact = reference(x.double(), weight, Fused(floor2=0.5))
    found = product(x, weight, Fused(floor2=0.5), tile=tile)
    assert ((found - exact).abs() <= 2**-8 * exact.abs() + 1e-6).all()
    wide = product(x, weight, Fused(floor2=0.5), tile=tile, dtype=torch.float32)
    assert ((wide - exact).abs() <= 1e-4 * exact.abs() + 1e-5).all()
