"""Matrices in 8 bits: how far they are from what was packed, and that a folder of them is read."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from small_target import save_target

from speculative_tts.models.decoder.loading import EMBEDDING, read_state, stored_rows
from speculative_tts.models.decoder.packed import pack, unpack


def test_an_entry_is_off_by_half_a_step_at_most() -> None:
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(50, 40, generator=generator) * torch.logspace(-3, 1, 50)[:, None]
    matrix[3] = 0
    tensors = {"weight": matrix, "bias": torch.randn(40, generator=generator)}
    packed = pack(tensors)
    assert packed["weight"].dtype is torch.int8
    found = unpack(packed)
    assert set(found) == set(tensors)
    assert torch.equal(found["bias"], tensors["bias"])
    half_step = matrix.abs().amax(1, keepdim=True) / 127 / 2
    rounding = found["weight"].abs() * 2**-11 + 2**-25  # float16
    assert ((found["weight"].float() - matrix).abs() <= half_step * 1.001 + rounding).all()


def test_packing_what_was_unpacked_changes_nothing() -> None:
    packed = pack({"weight": torch.randn(9, 7, generator=torch.Generator().manual_seed(1))})
    again = pack(unpack(packed))
    assert torch.equal(again["weight"], packed["weight"])


def test_several_matrices_are_packed_as_each_alone() -> None:
    generator = torch.Generator().manual_seed(2)
    heads, bias = torch.randn(3, 9, 7, generator=generator), torch.randn(3, 9, generator=generator)
    packed = pack({"heads": heads, "heads.bias": bias})
    assert torch.equal(packed["heads.bias"], bias)
    found = unpack(packed)["heads"]
    for one, head in zip(found, heads, strict=True):
        assert torch.equal(one, unpack(pack({"head": head}))["head"])


@pytest.mark.parametrize("wanted", [5, torch.tensor([7, 2, 11])])
def test_a_packed_folder_is_read(tmp_path: Path, wanted: int | torch.Tensor) -> None:
    save_target(tmp_path)
    state = read_state(tmp_path)
    packed = pack(state)
    save_file(packed, tmp_path / "model.safetensors")
    found = read_state(tmp_path)
    assert {name: value.shape for name, value in found.items()} == {
        name: value.shape for name, value in state.items()
    }
    torch.testing.assert_close(found[EMBEDDING].float(), state[EMBEDDING], atol=0.01, rtol=0)
    chosen = torch.arange(wanted) if isinstance(wanted, int) else wanted
    assert torch.equal(stored_rows(tmp_path, wanted), found[EMBEDDING][chosen])
