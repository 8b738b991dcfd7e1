"""What a draft learns from: losses by definition, batches, and how often its target accepts it."""

from functools import partial

import pytest
import torch
from small_target import LAYOUT

from speculative_tts.training import objective
from speculative_tts.training.checkpoint import build_model, read_checkpoint
from speculative_tts.training.data.columns import Columns
from speculative_tts.training.data.pairs import (
    IGNORED,
    PromptedSequences,
    SequenceWriter,
    write_rows,
)
from speculative_tts.training.losses import (
    acceptance,
    check_weights,
    cross_entropy,
    kl,
    lk,
    mix,
    tv,
)
from speculative_tts.training.objective import Objective, expected_acceptance


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


def test_an_empty_mix_is_refused():
    with pytest.raises(ValueError, match="all loss weights are 0"):
        check_weights({"ce": 0.0})


WRITING = SequenceWriter(partial(write_rows, LAYOUT, LAYOUT.eos_id, None), LAYOUT.eos_id)


def pairs(codes, seed, split="train"):
    return PromptedSequences(Columns.open([codes], split, LAYOUT.n_codes), WRITING, seed)


def test_text_and_padding_do_not_count(target, codes):
    config, tensors = read_checkpoint(target)
    model = build_model(config, tensors, torch.float32)
    batch = pairs(codes, 0).batch(range(3))
    speech = batch.targets[batch.targets != IGNORED]
    assert int(speech.max()) == LAYOUT.eos_id
    assert (speech == LAYOUT.eos_id).sum() == 3
    loss, _ = Objective(model, {"ce": 1.0})(batch)
    logits = model(batch.inputs).logits
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), batch.targets.flatten(), reduction="sum"
    )
    torch.testing.assert_close(loss, expected)


def test_target_accepts_itself(target, codes):
    config, tensors = read_checkpoint(target)
    model = build_model(config, tensors, torch.float32)
    batch = pairs(codes, 0, "dev").batch(range(4))
    accepted, count = expected_acceptance(model, model, batch, lambda x: x.softmax(-1))
    assert accepted == pytest.approx(count, rel=1e-5)


def test_distributions_of_few_positions_are_in_memory(target, codes, monkeypatch):
    """Of LLaSA's vocabulary those of a whole batch take more than a GPU has left."""
    config, tensors = read_checkpoint(target)
    model = build_model(config, tensors, torch.float32)
    draft = build_model(config, {n: t + 0.1 for n, t in tensors.items()}, torch.float32)
    batch = pairs(codes, 0, "dev").batch(range(4))
    whole, count = expected_acceptance(model, draft, batch, lambda x: x.softmax(-1))
    seen = []
    monkeypatch.setattr(objective, "CHUNK", 7)

    def sampler(logits):
        seen.append(len(logits))
        return logits.softmax(-1)

    assert expected_acceptance(model, draft, batch, sampler) == (pytest.approx(whole), count)
    assert max(seen) == 7
    assert sum(seen) == 2 * count


def test_batches_depend_on_nothing_but_seed_and_numbers(codes):
    one, two = (pairs(codes, 5) for _ in range(2))
    two.batch(range(9))
    for number in (0, 30, 77):
        first, second = one.batch([number]), two.batch([number])
        assert torch.equal(first.inputs, second.inputs)
    other = pairs(codes, 6)
    assert any(not torch.equal(one.batch([n]).inputs, other.batch([n]).inputs) for n in range(4))
