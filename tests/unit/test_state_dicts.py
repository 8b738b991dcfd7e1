"""Torch files of trainers: unwrapped, or refused with what they hold and how to convert them."""

import argparse
import pathlib
from collections import OrderedDict
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from speculative_tts.state_dicts import check_fit, read_state_dict, write_tensors

WEIGHTS = {"a.weight": torch.ones(2, 3), "b.bias": torch.zeros(2)}


def saved(folder: Path, content: Any) -> Path:
    torch.save(content, folder / "model.pt")
    return folder / "model.pt"


@pytest.mark.parametrize(
    ("content", "beside"),
    [
        (WEIGHTS, {}),
        (WEIGHTS | {"epoch": 3, "step": 4}, {"epoch": 3, "step": 4}),
        ({"model": WEIGHTS, "nhead": 4, "exp": pathlib.PosixPath("e")}, {"nhead", "exp"}),
        ({"module": OrderedDict(WEIGHTS), "ds_version": "0.14"}, {"ds_version"}),
        (
            {"state_dict": WEIGHTS, "epoch": 1, "args": argparse.Namespace(lr=0.1)},
            {"epoch", "args"},
        ),
        ({"model": {"module": WEIGHTS}, "step": 2}, {"step"}),
        ({f"module.{name}": tensor for name, tensor in WEIGHTS.items()}, {}),
        ({f"_orig_mod.module.{name}": tensor for name, tensor in WEIGHTS.items()}, {}),
        ({f"_fsdp_wrapped_module.{name}": tensor for name, tensor in WEIGHTS.items()}, {}),
        ({name.replace(".", "._orig_mod."): one for name, one in WEIGHTS.items()}, {}),
        (
            {
                name.replace(".", "._fsdp_wrapped_module._checkpoint_wrapped_module."): one
                for name, one in WEIGHTS.items()
            },
            {},
        ),
    ],
)
def test_what_trainers_wrap_is_unwrapped(tmp_path: Path, content: Any, beside: Any) -> None:
    """DeepSpeed's nested `module`, and a Namespace inside, had the remedy of a torn file.

    A part that was compiled, sharded or checkpointed made its tensors unknown.
    """
    state, rest = read_state_dict(saved(tmp_path, content))
    assert state.keys() == WEIGHTS.keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in WEIGHTS.items())
    assert rest.keys() == set(beside)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1], "holds a list; a state dict is needed"),
        ({"model": WEIGHTS, "module": WEIGHTS}, r"several models \(model, module\)"),
        ({"epoch": 3}, "holds no state dict"),
        (WEIGHTS | {"codes": [1, 2]}, "codes is a list; save the state dict alone"),
        (WEIGHTS | {"module.b.bias": torch.ones(2)}, "weights of one name twice"),
        (WEIGHTS | {"w": torch.eye(2).to_sparse()}, "w is sparse; save it dense"),
        ({"w": Fraction(1, 2)}, r"holds a fractions\.Fraction\).*: where it was made, save"),
    ],
)
def test_what_is_no_state_dict_is_told(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_state_dict(saved(tmp_path, content))


def test_an_old_file_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "old.pt"
    torch.save(WEIGHTS, path, _use_new_zipfile_serialization=False)
    assert read_state_dict(path)[0].keys() == WEIGHTS.keys()


def test_a_torn_file_is_to_be_copied_again(tmp_path: Path) -> None:
    path = saved(tmp_path, WEIGHTS)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"torn, or of another program\); copy it again"):
        read_state_dict(path)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.float8_e4m3fn])
def test_quantised_weights_fit_no_model(dtype: torch.dtype) -> None:
    """`load_state_dict` makes floating-point numbers of them, without their scales."""
    theirs = WEIGHTS | {"a.weight": WEIGHTS["a.weight"].to(dtype)}
    with pytest.raises(ValueError, match=r"a\.weight is \w+, quantised numbers"):
        check_fit(WEIGHTS, theirs, "give another")
    check_fit(WEIGHTS, {name: tensor.half() for name, tensor in WEIGHTS.items()}, "give another")


def test_no_file_is_written_of_numbers_that_are_none(tmp_path: Path) -> None:
    """Weights beyond float16 were stored as infinities, and NaN as NaN, without a word."""
    path = tmp_path / "model.safetensors"
    large = {"a.weight": torch.full((2,), 1e6).half(), "b.weight": torch.tensor([0.0, torch.nan])}
    with pytest.raises(ValueError, match=r"NaN or infinite: a\.weight, b\.weight; look at"):
        write_tensors(path, large)
    with pytest.raises(ValueError, match=r"NaN or infinite: c\.bias; look at"):
        write_tensors(path, {"c.bias": torch.tensor([torch.nan])})
    assert not path.exists()
    barred = {"c.bias": torch.tensor([0.0, -torch.inf]), "ids": torch.tensor([1])}
    write_tensors(path, barred)
    assert all(torch.equal(tensor, barred[name]) for name, tensor in load_file(path).items())
