"""Sums over groups as a sparse product, and what torch says of those."""

import warnings

import pytest
import torch

from speculative_tts.decoding.rules.group import Sums

SAID = (
    "Sparse CSR tensor support is in beta state.",
    "Sparse invariant checks are implicitly disabled.",  # torch 2.11's
)


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="sparse products are MKL's")
def test_warnings_of_sparse_matrices_stop_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where warnings are errors no test of a GPU could be collected by torch 2.11."""
    real, told = torch.sparse_csr_tensor, []

    def warns(*given: object, **options: object) -> torch.Tensor:
        for text in SAID:
            warnings.warn(text, UserWarning, stacklevel=2)
        told.append(options["check_invariants"])
        return real(*given, **options)

    monkeypatch.setattr(torch, "sparse_csr_tensor", warns)
    offsets, indices = torch.tensor([0, 2, 3]), torch.tensor([0, 2, 1])
    sums = Sums(offsets, indices, torch.ones(3), 3)
    assert told == [True]
    found = sums(torch.tensor([[[1.0, 2.0, 4.0]]]))
    assert found.tolist() == [[[5.0, 2.0]]]
    with pytest.raises(UserWarning, match="Sparse"):
        warns(offsets, indices, torch.ones(3), (2, 3))
