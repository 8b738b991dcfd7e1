"""Read others' torch files without running code, and compare tensors by name and shape."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

State = dict[str, Tensor]


def read_torch(path: Path, allowed: Sequence[type] = ()) -> Any:
    """Load a .pt file of tensors, plain values and objects of the `allowed` classes.

    Nothing else is unpickled, so a file cannot run code. Raise ValueError for another file.
    """
    if not path.is_file():
        raise ValueError(f"checkpoint {path} not found; give a .pt file")
    try:
        with torch.serialization.safe_globals(list(allowed)):
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many types, and advises to load without care
        other = re.search(r"GLOBAL (\S+)", str(error))
        reason = f"it holds a {other[1]}" if other else "it is torn, or of another program"
        raise ValueError(
            f"{path} is not readable as a checkpoint ({reason}); "
            "it may hold tensors, numbers, texts and paths only"
        ) from error


def check_fit(ours: State, theirs: State, advice: str) -> None:
    """Raise ValueError for missing, unknown and misshapen tensors, in one line with `advice`."""
    if problems := list(_misfits(ours, theirs)):
        raise ValueError(f"the checkpoint does not fit: {'; '.join(problems)}; {advice}")


def is_state(value: Any) -> bool:
    """Return True for a dictionary of tensors."""
    return isinstance(value, dict) and all(isinstance(tensor, Tensor) for tensor in value.values())


def _misfits(ours: State, theirs: State) -> Iterator[str]:
    if missing := sorted(ours.keys() - theirs.keys()):
        yield f"missing {', '.join(missing)}"
    if unknown := sorted(theirs.keys() - ours.keys()):
        yield f"unknown {', '.join(unknown)}"
    for name in sorted(ours.keys() & theirs.keys()):
        if ours[name].shape != theirs[name].shape:
            yield f"{name} is {tuple(theirs[name].shape)} instead of {tuple(ours[name].shape)}"
