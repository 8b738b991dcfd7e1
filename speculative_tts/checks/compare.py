"""Compare computed numbers with those of a golden file."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from speculative_tts.checks.registry import CheckRow, FormatError

TOLERANCE = 1e-4
"""Of float32 results, absolute; above the noise between two correct implementations."""

Numbers = Tensor | np.ndarray | float | Sequence[Any]


def close(case: str, got: Numbers, expected: Numbers, tolerance: float = TOLERANCE) -> CheckRow:
    """Return the largest absolute difference; infinite if shapes differ or one alone has a NaN.

    Equal infinities (filtered logits) do not differ.
    """
    a, b = _double(got), _double(expected)
    if a.shape != b.shape:
        return CheckRow(case, float("inf"), tolerance)
    same = (a == b) | (a.isnan() & b.isnan())
    difference = torch.where(same, 0.0, (a - b).abs())
    worst = float(difference.nan_to_num(nan=float("inf")).max()) if a.numel() else 0.0
    return CheckRow(case, worst, tolerance)


def relative(case: str, got: float, expected: float, tolerance: float = TOLERANCE) -> CheckRow:
    """Return the difference relative to the expected size, for sums of many terms (losses)."""
    return CheckRow(case, abs(got - expected) / max(1.0, abs(expected)), tolerance)


def same(case: str, got: Numbers, expected: Numbers) -> CheckRow:
    """Count the entries of codes or ids that differ, missing and surplus ones included."""
    a, b = _double(got), _double(expected)
    if a.ndim != b.ndim or a.shape[1:] != b.shape[1:]:
        return CheckRow(case, float("inf"), 0.0)
    if a.ndim == 0:
        return CheckRow(case, float(a != b), 0.0)
    n = min(len(a), len(b))
    surplus = max(len(a), len(b)) - n
    entries = a[0].numel() if len(a) else 1
    return CheckRow(case, float((a[:n] != b[:n]).sum()) + surplus * entries, 0.0)


class Entries(dict[str, Any]):
    """Hold the entries of a golden file or of an object in it; FormatError for a missing one."""

    def __init__(self, path: Path, entries: Mapping[str, Any]) -> None:
        super().__init__(entries)
        self.path = path

    def __missing__(self, name: str) -> Any:
        raise FormatError(f"{self.path} has no {name!r}; it is not in the golden format")


def read_arrays(path: Path) -> Entries:
    """Read all arrays of an .npz file; FormatError if it is missing or not one."""
    _require(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            return Entries(path, {name: archive[name] for name in archive.files})
    except (ValueError, OSError, EOFError) as error:
        raise FormatError(f"{path} is not a readable .npz file ({error}); copy it again") from error


def read_json(path: Path) -> Any:
    """Read a JSON file, its objects as `Entries`; FormatError if it is missing or not one."""
    _require(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"), object_hook=partial(Entries, path))
    except ValueError as error:
        raise FormatError(f"{path} is not JSON ({error}); copy it again") from error


def read_object(path: Path) -> Entries:
    """Read a JSON object; FormatError for another value, too."""
    found = read_json(path)
    if not isinstance(found, Entries):
        raise FormatError(f"{path} holds no object; it is not in the golden format")
    return found


def _require(path: Path) -> None:
    if not path.is_file():
        raise FormatError(f"{path} not found; give golden=<folder> in the golden format")


def _double(value: Numbers) -> Tensor:
    tensor = value.detach() if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
    return tensor.to("cpu", torch.float64)
