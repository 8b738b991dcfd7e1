"""Sums over lists of ids, as the rule by groups needs them (`decoding.groups.Sums`)."""

import ctypes

import torch
from torch import Tensor

from speculative_tts.models.native.library import library

WIDEST = 1 << 16  # columns whose numbers have 16 bits


class Sums:
    """Sums over the columns that a 0/1 matrix in CSR has in each row; int32, on a CPU."""

    def __init__(self, native: ctypes.CDLL, offsets: Tensor, indices: Tensor, columns: int) -> None:
        self._sums, self._columns = native.sst_sums, columns
        self._offsets = offsets.contiguous()
        self._indices = indices.to(torch.uint16)  # half to read

    def __call__(self, x: Tensor) -> Tensor:
        """x: float32 [batch, n, columns]. Returns [batch, n, rows]."""
        assert x.shape[-1] == self._columns
        x, lists = x.contiguous(), len(self._offsets) - 1
        out = torch.empty(*x.shape[:-1], lists)
        pointers = self._offsets.data_ptr(), self._indices.data_ptr()
        count = x.numel() // self._columns
        self._sums(*pointers, lists, self._columns, x.data_ptr(), count, out.data_ptr())
        return out


def sums(offsets: Tensor, indices: Tensor, columns: int) -> Sums | None:
    """Where there is a native library for these tensors."""
    native = library() if offsets.device.type == "cpu" else None
    if columns > WIDEST:
        return None
    return None if native is None else Sums(native, offsets, indices, columns)
