"""Read torch files without running code, unwrap them, compare their tensors; write tensors."""

import argparse
import pathlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from speculative_tts.files import write_atomic
from speculative_tts.texts import some

State = dict[str, Tensor]
PLAIN = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
NESTED = ("model", "module", "state_dict", "model_state_dict")  # icefall, DeepSpeed, Lightning
# of data parallel models, at the start; of compiled, sharded and checkpointed ones, anywhere
WRAPPERS = re.compile(
    r"^(?:(?:module|_orig_mod|_fsdp_wrapped_module)\.)+"
    r"|(?<=\.)(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."
)
NOTES = (int, float, str, bool, type(None))  # what training leaves among tensors
HARMLESS: list[Any] = [
    argparse.Namespace,
    pathlib.PosixPath,
]  # holds what it is given, runs nothing


def read_torch(path: Path) -> Any:
    """Load a .pt file of tensors, plain values and what training noted (`HARMLESS`).

    Nothing else is unpickled, so a file cannot run code. Tensors stay in the file until they are
    used, if its format allows that. Raise ValueError for another file.
    """
    if not path.is_file():
        raise ValueError(f"checkpoint {path} not found; give a .pt file")
    try:
        with torch.serialization.safe_globals(HARMLESS):
            try:
                return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            except RuntimeError:  # a file of the old format cannot be mapped
                return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many types, and advises to load without care
        other = re.search(r"GLOBAL (\S+)", str(error))
        if other is None:
            raise ValueError(
                f"{path} is not readable as a checkpoint (it is torn, or of another program); "
                "copy it again"
            ) from error
        raise ValueError(
            f"{path} is not readable as a checkpoint (it holds a {other[1]}); it may hold tensors, "
            "numbers, texts and paths only: where it was made, save its state dict alone "
            "(torch.save(model.state_dict(), <file>))"
        ) from error


@contextmanager
def opened(file: Path, framework: str = "pt", remedy: str = "copy it again") -> Iterator[Any]:
    """Open a safetensors file; what cannot be read of it is a ValueError that names it."""
    try:
        with safe_open(file, framework=framework) as tensors:
            yield tensors
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{file} is not readable as safetensors ({error}); {remedy}") from error


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file as transformers reads it.

    Raise ValueError naming tensors that are NaN or infinite somewhere: in a bias minus infinity is
    an id that is never said, elsewhere it is a number too large for the stored precision.
    """
    odd = [
        name
        for name, tensor in tensors.items()
        if tensor.is_floating_point()
        and bool((tensor.isnan() if name.endswith("bias") else ~tensor.isfinite()).any())
    ]
    if odd:
        raise ValueError(
            f"{path} would hold numbers that are NaN or infinite: {some(odd)}; look at the weights "
            "it is made from, or store them in float32"
        )
    write_atomic(path, save(dict(tensors), metadata={"format": "pt"}))


def read_state_dict(path: Path) -> tuple[State, dict[str, Any]]:
    """Tensors of a .pt file by name, and what training left beside them.

    The state dict may be the file itself, perhaps with plain values such as `epoch` among its
    tensors, or lie under one of `NESTED`; prefixes that wrappers add to names are taken off.
    ValueError for another file, and where two tensors would have one name.
    """
    content: Any = read_torch(path)
    beside: dict[str, Any] = {}
    while nested := [name for name in NESTED if _holds(content, name)]:
        if len(nested) > 1:
            raise ValueError(
                f"{path} holds several models ({', '.join(nested)}); save the one that you mean"
            )
        beside |= {name: value for name, value in content.items() if name != nested[0]}
        content = content[nested[0]]
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds a {type(content).__name__}; a state dict is needed")
    tensors = {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
    rest = {name: value for name, value in content.items() if not isinstance(value, Tensor)}
    if sparse := [name for name, tensor in tensors.items() if tensor.layout != torch.strided]:
        raise ValueError(f"{path}: {sparse[0]} is sparse; save it dense, tensor.to_dense()")
    if odd := [str(name) for name, value in rest.items() if not isinstance(value, NOTES)]:
        raise ValueError(
            f"{path} is no state dict: {odd[0]} is a {type(rest[odd[0]]).__name__}; save the state "
            "dict alone"
        )
    state = {WRAPPERS.sub("", name): tensor for name, tensor in tensors.items()}
    if not state or len(state) < len(tensors):
        what = "holds the weights of one name twice" if state else "holds no state dict"
        raise ValueError(f"{path} {what}; save the state dict of one model")
    return state, beside | rest


def _holds(content: Any, name: str) -> bool:
    return isinstance(content, dict) and isinstance(content.get(name), dict)


def check_fit(ours: State, theirs: State, advice: str) -> None:
    """Raise ValueError for missing, unknown and misshapen tensors, in one line with `advice`."""
    if problems := list(_misfits(ours, theirs)):
        raise ValueError(f"the checkpoint does not fit: {'; '.join(problems)}; {advice}")


def _misfits(ours: State, theirs: State) -> Iterator[str]:
    if missing := sorted(ours.keys() - theirs.keys()):
        yield f"missing {some(missing)}"
    if unknown := sorted(theirs.keys() - ours.keys()):
        yield f"unknown {some(unknown)}"
    odd = []
    for name in sorted(ours.keys() & theirs.keys()):
        wanted, there = tuple(ours[name].shape), tuple(theirs[name].shape)
        if wanted != there:
            odd.append(f"{name} is {there} instead of {wanted}")
        elif ours[name].dtype.is_floating_point and theirs[name].dtype not in PLAIN:
            kind = str(theirs[name].dtype).removeprefix("torch.")
            odd.append(f"{name} is {kind}, quantised numbers whose scales are not read here")
    if odd:
        yield some(odd)
