"""A weight for products with one row (a step), a few rows (verification) and many (prefill).

On a CPU one row is bound by reading the weight, and a few rows should cost the same. `Packed` keeps
the weight in the order of the native step (`models.native`), and nothing else: a row's product does
not depend on how many rows there are. `Dense` is torch's.

A BLAS first copies the weight into the order its kernel wants, for every product of few rows, which
takes about twice as long. A second copy of the weight as panels of 32 columns needs no such step:
each panel is one small product. It costs memory, so large weights go without.
"""

import ctypes
from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from speculative_tts.models.native.library import library
from speculative_tts.models.native.memory import copied
from speculative_tts.models.native.step import Linear, pack, padded_vector, unpack

PANEL = 32  # columns
NARROW = 256  # columns below which panels gain nothing
FEW = range(3, 17)  # rows at which panels win; a draft's steps of 1 or 2 do without the memory
LARGEST = 64 << 20  # bytes of a weight that may have a second copy


class Matrix(ABC):
    """x @ weight + bias, the weight [in, out], given with any strides."""

    shape: tuple[int, int]
    nbytes: int  # of weight and bias
    _weight: Tensor
    _bias: Tensor | None

    @abstractmethod
    def __call__(self, x: Tensor, addend: Tensor | None = None) -> Tensor:
        """x: [rows, in]; addend: [rows, out] or None. Returns [rows, out]."""

    @abstractmethod
    def dense(self) -> Tensor:
        """The weight [in, out]."""

    @abstractmethod
    def copied(self) -> "Matrix":
        """The same numbers in memory of their own."""

    def to(self, dtype: torch.dtype) -> "Matrix":
        """The same rounded to a format; itself where it has that."""
        if self._weight.dtype is dtype:
            return self
        bias = None if self._bias is None else self._bias[: self.shape[1]].to(dtype)
        return matrix(self.dense().to(dtype), bias)


def matrix(weight: Tensor, bias: Tensor | None = None) -> Matrix:
    """For the kernels of this process (`models.native.library`). bias: [out]."""
    native = library() if weight.device.type == "cpu" else None
    return Dense(weight, bias) if native is None else Packed(native, weight, bias)


class Packed(Matrix):
    """Panels of the native step; takes and gives float32, whatever the weight's format."""

    def __init__(self, native: ctypes.CDLL, weight: Tensor, bias: Tensor | None) -> None:
        assert weight.dtype in (torch.float32, torch.bfloat16)
        self.shape = (weight.shape[0], weight.shape[1])
        self.nbytes = weight.nbytes + (0 if bias is None else bias.nbytes)
        self._native, self._weight = native, copied(native, pack(weight))
        self._bias = None if bias is None else padded_vector(bias)
        self.linear = self._linear()

    def __call__(self, x: Tensor, addend: Tensor | None = None) -> Tensor:
        """See `Matrix`."""
        assert x.shape[1] == self.shape[0]
        x = x.float().contiguous()
        out = torch.empty(len(x), self.shape[1])
        self._native.sst_product(
            ctypes.byref(self.linear),
            x.data_ptr(),
            len(x),
            out.data_ptr(),
            torch.get_num_threads(),
        )
        return out if addend is None else out.add_(addend)

    def dense(self) -> Tensor:
        """See `Matrix`."""
        return unpack(self._weight, self.shape)

    def copied(self) -> "Packed":
        """See `Matrix`."""
        twin = object.__new__(Packed)
        vars(twin).update(vars(self))
        twin._weight = copied(self._native, self._weight)
        twin.linear = twin._linear()
        return twin

    def _linear(self) -> Linear:
        """What the native step sees."""
        bias = None if self._bias is None else self._bias.data_ptr()
        half = self._weight.dtype == torch.bfloat16
        return Linear(self._weight.data_ptr(), bias, *self.shape, half, 0)


def packed(*matrices: Matrix) -> list[Linear]:
    """What the native step sees of them; nothing unless all are packed."""
    linears = [m.linear for m in matrices if isinstance(m, Packed)]
    return linears if len(linears) == len(matrices) else []


class Dense(Matrix):
    """torch's products, on any device."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.shape = (weight.shape[0], weight.shape[1])
        self.nbytes = weight.nbytes + (0 if bias is None else bias.nbytes)
        self._weight, self._bias = weight.contiguous(), bias
        self._wanted = has_panels(self._weight)
        self._panels: Tensor | None = None  # made when first needed

    def __call__(self, x: Tensor, addend: Tensor | None = None) -> Tensor:
        """See `Matrix`."""
        first, second = (self._bias, addend) if addend is None else (addend, self._bias)
        if not self._wanted or len(x) not in FEW:
            out = (
                torch.mm(x, self._weight) if first is None else torch.addmm(first, x, self._weight)
            )
        else:
            out = self._by_panels(x)
            out = out if first is None else out.add_(first)
        return out if second is None else out + second

    def _by_panels(self, x: Tensor) -> Tensor:
        if self._panels is None:
            self._panels = _panels(self._weight)
        parts = torch.bmm(x.expand(len(self._panels), -1, -1), self._panels).transpose(0, 1)
        return parts.reshape(len(x), -1)[:, : self.shape[1]]

    def dense(self) -> Tensor:
        """See `Matrix`."""
        return self._weight

    def copied(self) -> "Dense":
        """See `Matrix`."""
        bias = None if self._bias is None else self._bias.clone()
        return Dense(self._weight.clone(), bias)


def has_panels(weight: Tensor) -> bool:
    """Would a second copy of it pay?"""
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and weight.shape[1] >= NARROW
        and weight.nbytes <= LARGEST
    )


def _panels(weight: Tensor) -> Tensor:
    """[in, out] as [panels, in, PANEL], zeros behind the last column."""
    whole = F.pad(weight, (0, -weight.shape[1] % PANEL))
    return whole.view(len(weight), -1, PANEL).transpose(0, 1).contiguous()
