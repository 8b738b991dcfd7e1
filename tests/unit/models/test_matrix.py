import pytest
import torch

from speculative_tts.models.decoder.matrix import Dense, matrix

pytestmark = pytest.mark.usefixtures("kernels")


@pytest.mark.parametrize("width", [1, 50, 289])
@pytest.mark.parametrize("rows", [1, 3, 17])
def test_all_ways_to_multiply_agree(rows: int, width: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    weight, x = (torch.randn(*s, generator=generator) for s in ((48, width), (rows, 48)))
    bias, residual = (torch.randn(*s, generator=generator) for s in ((width,), (rows, width)))
    product = (x.double() @ weight.double()).float()
    for made in (matrix(weight), matrix(weight).copied()):
        torch.testing.assert_close(made(x), product, rtol=0, atol=3e-5)
        torch.testing.assert_close(made(x, residual), product + residual, rtol=0, atol=3e-5)
        assert made.dense().equal(weight)
    made = matrix(weight.clone())
    made.copied()._weight.zero_()
    assert made.dense().equal(weight)  # a copy has memory of its own
    biased = matrix(weight, bias)
    torch.testing.assert_close(biased(x), product + bias, rtol=0, atol=3e-5)
    torch.testing.assert_close(biased(x, residual), product + bias + residual, rtol=0, atol=3e-5)


def test_bfloat16_weights_are_kept_as_they_are() -> None:
    weight, x = torch.randn(40, 70).bfloat16(), torch.randn(3, 40)
    made = matrix(weight)
    assert made.dense().equal(weight)
    if not isinstance(made, Dense):  # float32 in, rounded, float32 out
        product = x.bfloat16().float() @ weight.float()
        torch.testing.assert_close(made(x), product, rtol=0, atol=3e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_some_outputs_are_those_of_the_whole(dtype: torch.dtype) -> None:
    weight, bias, x = torch.randn(40, 70), torch.randn(70), torch.randn(3, 40)
    chosen = torch.tensor([69, 0, 33, 34])
    whole = matrix(weight, bias, dtype)
    some = whole.columns(chosen)
    assert some.shape == (40, 4)
    assert some.dense().equal(whole.dense()[:, chosen])
    fed = x.to(whole.fed)
    torch.testing.assert_close(some(fed), whole(fed)[:, chosen], rtol=0.01, atol=3e-5)
