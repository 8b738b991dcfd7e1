"""Distributions and draws of `sample.cpp`, for logits on a CPU."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from speculative_tts.native.library import library
from speculative_tts.native.structures import numbers, pointers

MOST = 2**31 - 1  # that a setting of Sampling can be


class Sampling(ctypes.Structure):
    """Settings of a sampler; see native.h."""

    _fields_ = (
        *numbers(ctypes.c_float, "temperature top_p"),
        *numbers(ctypes.c_int32, "top_k window"),
        ("often", ctypes.c_float),
        *numbers(ctypes.c_int32, "again_without end_when_likeliest slots end_in_frame"),
        ("penalty", ctypes.c_float),
        ("unused", ctypes.c_int32),
        ("slot_ends", ctypes.c_void_p),
    )

    def set_slots(self, ends: Sequence[int], *, end_in_frame: bool) -> None:
        """Set the first id after the range of each position of a frame."""
        self.kept = torch.tensor(ends)  # the structure points into it
        self.slots, self.end_in_frame, self.slot_ends = (
            len(ends),
            end_in_frame,
            self.kept.data_ptr(),
        )


class Rows(ctypes.Structure):
    """Rows and positions whose distributions are wanted; see native.h."""

    _fields_ = (
        *pointers("logits positions minimum barred stops history prompted"),
        *numbers(ctypes.c_int64, "capacity batch fresh vocab"),
    )


@dataclass(frozen=True)
class Places:
    """Positions whose distributions are wanted, as `decoding.sampling.sampler.Sampler` has them."""

    history: Tensor  # int64 [batch, capacity]
    positions: Tensor  # int64 [batch, new]
    minimum: Tensor  # int64 [batch]
    stops: Tensor  # bool [vocab]
    barred: Tensor  # bool [vocab]: impossible before the minimum
    prompted: Tensor  # bool [batch, vocab]: ids in the prompt


def runs(tensor: Tensor) -> bool:
    """True if native code computes it: float32 on a CPU, where there is a library."""
    return tensor.dtype == torch.float32 and tensor.device.type == "cpu" and library() is not None


def laws(sampling: Sampling, logits: Tensor, places: Places) -> Tensor:
    """Return distributions of logits, float32 [batch, new, vocab] both."""
    native, out = library(), torch.empty(logits.shape)
    assert native is not None
    kept = [
        logits.contiguous(),
        places.positions.contiguous(),
        places.minimum,
        places.barred,
        places.stops,
        places.history.contiguous(),
        places.prompted.contiguous(),
    ]
    rows = Rows(*(tensor.data_ptr() for tensor in kept), places.history.shape[1], *logits.shape)
    native.sst_laws(ctypes.byref(sampling), ctypes.byref(rows), out.data_ptr())
    return out


def draw(probs: Tensor, uniform: Tensor) -> Tensor:
    """Draw as `randomness.draw` from float32 distributions [..., vocab]: int64 [...]."""
    native, ids = library(), torch.empty(uniform.shape, dtype=torch.int64)
    assert native is not None
    probs, uniform, count = probs.contiguous(), uniform.contiguous(), ids.numel()
    pointers = uniform.data_ptr(), ids.data_ptr()
    native.sst_draw(probs.data_ptr(), count, probs.shape[-1], *pointers)
    return ids
