import pytest
import torch

from speculative_tts.models.matrix import COPIES, FEW, NARROW, Matrix, has_panels, panels_fit


@pytest.mark.parametrize("width", [NARROW - 1, NARROW, NARROW + 33])
@pytest.mark.parametrize("rows", [1, FEW.start, FEW.stop - 1, FEW.stop])
def test_all_ways_to_multiply_agree(rows: int, width: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    weight, x = (torch.randn(*s, generator=generator) for s in ((48, width), (rows, 48)))
    bias, residual = (torch.randn(*s, generator=generator) for s in ((width,), (rows, width)))
    product = (x.double() @ weight.double()).float()
    matrix = Matrix(weight)
    torch.testing.assert_close(matrix(x), product, rtol=0, atol=3e-5)
    torch.testing.assert_close(matrix(x, bias), product + bias, rtol=0, atol=3e-5)
    torch.testing.assert_close(matrix(x, residual), product + residual, rtol=0, atol=3e-5)
    torch.testing.assert_close(Matrix(weight, panels=False)(x), product, rtol=0, atol=3e-5)


def test_only_wide_float32_weights_have_panels() -> None:
    wide = torch.randn(64, NARROW)
    assert has_panels(wide)
    assert not has_panels(wide[:, 1:])
    assert not has_panels(wide.bfloat16())
    assert not has_panels(wide.to("meta"))


def test_large_models_go_without_a_copy() -> None:
    wide = torch.empty(1024, NARROW)
    assert panels_fit([wide] * (COPIES // wide.nbytes))
    assert not panels_fit([wide] * (COPIES // wide.nbytes + 1))
