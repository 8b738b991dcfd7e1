"""Muon, ScaledAdam beside the official classes' trajectory, and learning rates by step."""

from pathlib import Path

import numpy as np
import pytest
import torch

from speculative_tts.training.optimiser import Muon, orthogonalise
from speculative_tts.training.scaled_adam import ScaledAdam
from speculative_tts.training.schedule import cosine, eden, eden_steps
from speculative_tts_makers.training.learning import trapezoid

GOLDEN = Path(__file__).parents[2] / "golden" / "scaled_adam" / "scaled_adam_eden.npz"


def test_orthogonalised_matrices_have_singular_values_near_one() -> None:
    matrices = torch.randn(3, 12, 20, generator=torch.Generator().manual_seed(0))
    for shape in (matrices, matrices.mT):
        values = torch.linalg.svdvals(orthogonalise(shape))
        assert 0.6 < float(values.min()) <= float(values.max()) < 1.3


def test_each_matrix_of_a_stack_is_its_own() -> None:
    matrices = torch.randn(3, 12, 20, generator=torch.Generator().manual_seed(0))
    alone = torch.cat([orthogonalise(m[None]) for m in matrices])
    torch.testing.assert_close(orthogonalise(matrices), alone)


def test_muon_descends_a_quadratic() -> None:
    generator = torch.Generator().manual_seed(0)
    target = torch.randn(8, 8, generator=generator)
    weight = torch.nn.Parameter(torch.zeros(8, 8))
    optimiser = Muon([weight], lr=0.05)
    for _ in range(150):
        optimiser.zero_grad()
        loss = (weight - target).square().mean()
        loss.backward()
        optimiser.step()
    assert float(loss.detach()) < 0.05


def test_the_official_trajectory() -> None:
    with np.load(GOLDEN) as stored:
        golden = {name: stored[name] for name in stored.files}
    names = sorted(name.removeprefix("init/") for name in golden if name.startswith("init/"))
    params = [torch.nn.Parameter(torch.from_numpy(golden[f"init/{name}"])) for name in names]
    optimizer = ScaledAdam(
        params, lr=0.05, betas=(0.9, 0.95), clipping_scale=2.0, clipping_update_period=10
    )
    rates = []
    for step in range(len(golden["lr_after_step"])):
        for param, name in zip(params, names, strict=True):
            param.grad = torch.from_numpy(golden[f"grad/{name}"][step])
        if step:
            optimizer.param_groups[0]["lr"] = rates[-1]
        else:
            optimizer.param_groups[0]["lr"] = eden(0.05, batch=0, epoch=0)
        optimizer.step()
        rates.append(eden(0.05, batch=step + 1, epoch=0))
        for param, name in zip(params, names, strict=True):
            np.testing.assert_allclose(
                param.detach().numpy(), golden[f"traj/{name}"][step], rtol=1e-9, atol=1e-12
            )
    np.testing.assert_allclose(rates, golden["lr_after_step"], rtol=1e-12)


def test_edens_table() -> None:
    with np.load(GOLDEN) as stored:
        names = [name for name in stored.files if name.startswith("eden")]
        golden = {name: stored[name] for name in names}
    assert "eden_lr" in golden, names
    table = golden["eden_lr"]
    epochs = golden.get("eden_epochs", np.arange(table.shape[0]))
    batches = golden.get("eden_batches", np.arange(table.shape[1]))
    for i, epoch in enumerate(epochs):
        for j, batch in enumerate(batches):
            rate = eden(0.05, batch=int(batch), epoch=float(epoch))
            np.testing.assert_allclose(rate, table[i, j], rtol=1e-9)


def test_cosine_warms_up_and_ends_at_zero() -> None:
    rate = cosine(warmup=2)
    rates = [rate(0.01, step, 6) for step in range(7)]
    assert rates[0] == pytest.approx(0.005)
    assert max(rates) == 0.01 == rates[1]
    assert rates[-1] == pytest.approx(0)


def test_trapezoid_warms_up_holds_and_decays() -> None:
    rate = trapezoid(warmup=4, decay=10)
    rates = [rate(1.0, step, 40) for step in range(40)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert set(rates[4:31]) == {1.0}
    assert rates[-1] == pytest.approx(0.1)
    assert trapezoid(warmup=0, decay=0)(2.0, 39, 40) == 2.0  # neither rise nor fall


def test_edens_epochs_are_whole_ones() -> None:
    """Ten batches an epoch, three a step: step 10 has seen three epochs (by floats, two)."""
    rate = eden_steps(warmup=0, processes=3, epoch=10)
    assert rate(0.05, 10, 99) == eden(0.05, batch=10, epoch=3, warmup=0)
    assert eden_steps(warmup=0)(0.05, 10, 99) == eden(0.05, batch=10, epoch=0, warmup=0)


def test_eden_counts_a_processs_batches_as_its_recipe_does() -> None:
    """Not steps: with four batches a step the warm-up of 200 is over after 50."""
    rate = eden_steps(warmup=200, accumulate=4, processes=2, epoch=80)
    assert rate(0.05, 25, 99) == eden(0.05, batch=100, epoch=2, warmup=200)
    by_hand = 0.05 * (1 + (200 / 5000) ** 2) ** -0.25 * (1 + (5 / 4) ** 2) ** -0.25
    assert rate(0.05, 50, 99) == pytest.approx(by_hand)
