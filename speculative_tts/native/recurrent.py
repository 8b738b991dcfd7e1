"""A recurrent drafter's layer, and the drafter of native rounds (`draft.cpp`)."""

import ctypes
from typing import Self

import torch
from torch import Tensor

from speculative_tts.native.step import NativeMatrix
from speculative_tts.native.walk import NativeDrafter


class Recurrent(ctypes.Structure):
    """One layer; see native.h."""

    _fields_ = (
        *((name, ctypes.POINTER(NativeMatrix)) for name in ("inner", "out")),
        ("blocks", ctypes.c_int64),
        ("head", ctypes.POINTER(NativeMatrix)),
        ("few", ctypes.c_void_p),
    )

    @classmethod
    def of(cls, *linears: list[NativeMatrix], few: Tensor | None) -> Self:
        """Build it from the matrices of all blocks, inner and out, and of the head.

        Their matrices, and the ids of the head's rows (int64), must be kept by the caller.
        """
        inner, out, head = ((NativeMatrix * len(some))(*some) for some in linears)
        return cls(inner, out, len(inner), head, None if few is None else few.data_ptr())


def step(native: ctypes.CDLL, layer: Recurrent, states: Tensor, inputs: Tensor) -> Tensor:
    """Return the states after tokens of these inputs, float32 [batch, hidden]."""
    out, inputs = states.float().clone(), inputs.float().contiguous()
    given = (inputs.data_ptr(), len(out), out.data_ptr(), torch.get_num_threads())
    native.sst_recurrent(ctypes.byref(layer), *given)
    return out


def drafter(layer: Recurrent, states: Tensor) -> NativeDrafter:
    """Return the layer as the drafter of rounds; its embedding is the verifying target's."""
    made = NativeDrafter(None, None, None, states.data_ptr(), ctypes.addressof(layer))
    made.kept = (layer, states)
    return made
