"""Muon."""

import torch

from speculative_tts.training.optimiser import Muon, orthogonalise


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
