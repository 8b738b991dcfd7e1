"""Matrices in 8 bits: how far they are from what was packed, and that a folder of them is read."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from small_target import save_target

from speculative_tts.models.decoder.loading import EMBEDDING, read_state, stored_rows
from speculative_tts.models.decoder.packed import pack, require_plain, unpack


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


def test_scales_of_another_shape_are_not_guessed(tmp_path: Path) -> None:
    """A scale of each column of a square matrix was taken for one of each row, in silence."""
    matrix = torch.ones(4, 4, dtype=torch.int8)
    for scale in (torch.rand(1, 4), torch.rand(2, 2), torch.ones(4, dtype=torch.int32)):
        state = unpack({"a.weight": matrix, "a.weight_scale": scale})
        with pytest.raises(ValueError, match="weight is int8, quantised in a way"):
            require_plain(tmp_path, state)
    rows = unpack({"a.weight": matrix, "a.weight_scale": torch.arange(4.0)[:, None]})
    assert torch.equal(rows["a.weight"], torch.arange(4.0)[:, None].expand(4, 4))


def test_scales_of_ours_are_one_a_row(tmp_path: Path) -> None:
    """Others', and those beside fp8, were a traceback of torch."""
    matrix = torch.ones(4, 3)
    with pytest.raises(ValueError, match=r"a\.weight\.scale is \(2,\), one for each row is \(4,\)"):
        unpack({"a.weight": matrix.to(torch.int8), "a.weight.scale": torch.ones(2)})
    state = unpack({"a.weight": matrix.to(torch.float8_e4m3fn), "a.weight.scale": torch.ones(4)})
    with pytest.raises(ValueError, match="weight is float8_e4m3fn, quantised in a way"):
        require_plain(tmp_path, state)


def test_fp8_in_blocks_is_multiplied_by_its_blocks_scale() -> None:
    """Qwen3's fp8 checkpoints, and DeepSeek's: `weight_scale_inv` is no inverse, blocks are 128."""
    generator = torch.Generator().manual_seed(4)
    stored = torch.randn(130, 300, generator=generator).to(torch.float8_e4m3fn)
    scale = torch.rand(2, 3, generator=generator) + 0.5
    tensors = {"q.weight": stored, "q.weight_scale_inv": scale, "norm": torch.ones(3)}
    found = unpack(tensors)
    assert set(found) == {"q.weight", "norm"}
    for row, column in ((0, 0), (127, 127), (128, 0), (129, 299), (5, 128)):
        expected = stored[row, column].float() * scale[row // 128, column // 128]
        assert found["q.weight"][row, column] == expected
    other = unpack({"q.weight": stored, "q.weight_scale_inv": torch.ones(3, 5)})  # of 64 x 64
    with pytest.raises(ValueError, match=r"q\.weight is float8_e4m3fn, quantised in a way that"):
        require_plain("model", other)
