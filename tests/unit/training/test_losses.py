import pytest
import torch

from speculative_tts.training.losses import (
    acceptance,
    check_weights,
    cross_entropy,
    kl,
    lk,
    mix,
    tv,
)


@pytest.fixture
def logits():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(5, 9, generator=generator), torch.randn(5, 9, generator=generator)


def test_values_by_definition(logits):
    target, draft = logits
    q, p = target.double().softmax(-1), draft.double().softmax(-1)
    alpha = torch.minimum(p, q).sum(-1)
    expected = {kl: (q * (q / p).log()).sum(-1), tv: (p - q).abs().sum(-1) / 2, lk: -alpha.log()}
    for loss, value in expected.items():
        torch.testing.assert_close(loss(target, draft).double(), value, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(acceptance(target, draft).double(), alpha, rtol=1e-5, atol=1e-6)
    labels = torch.tensor([0, 1, 2, 3, 8])
    torch.testing.assert_close(
        cross_entropy(draft, labels).double(), -p[torch.arange(5), labels].log()
    )


def test_equal_distributions_lose_nothing(logits):
    target, _ = logits
    for loss in (kl, tv, lk):
        torch.testing.assert_close(loss(target, target + 3), torch.zeros(5), rtol=0, atol=1e-6)


@pytest.mark.parametrize("loss", [kl, tv, lk])
def test_descent_raises_acceptance(logits, loss):
    target, draft = logits
    draft = draft.clone().requires_grad_()
    before = acceptance(target, draft).mean()
    for _ in range(30):
        (gradient,) = torch.autograd.grad(loss(target, draft).sum(), draft)
        draft = (draft - 0.5 * gradient).detach().requires_grad_()
    assert acceptance(target, draft).mean() > before + 0.1


def test_lk_gradient_is_tvs_over_alpha(logits):
    target, draft = logits
    draft = draft.clone().requires_grad_()
    (of_lk,) = torch.autograd.grad(lk(target, draft).sum(), draft)
    (of_tv,) = torch.autograd.grad(tv(target, draft).sum(), draft)
    alpha = acceptance(target, draft).detach()[:, None]
    torch.testing.assert_close(of_lk, of_tv / alpha)


def test_hopeless_positions_stay_finite():
    target, draft = torch.tensor([[100.0, 0.0]]), torch.tensor([[0.0, 100.0]])
    assert all(torch.isfinite(loss(target, draft)).all() for loss in (kl, tv, lk))


def test_mix_is_the_weighted_sum_at_the_samplers_temperature(logits):
    target, draft = logits
    labels = torch.tensor([0, 1, 2, 3, 8])
    mixed = mix({"ce": 0.5, "tv": 2.0, "kl": 0.0}, draft, labels, target, temperature=0.8)
    expected = 0.5 * cross_entropy(draft, labels) + 2 * tv(target / 0.8, draft / 0.8)
    torch.testing.assert_close(mixed, expected)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"ce": 0.0}, "all loss weights are 0"),
        ({"ce": -1.0}, "below 0"),
        ({"l2": 1.0}, "loss 'l2' is unknown"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        check_weights(weights)
