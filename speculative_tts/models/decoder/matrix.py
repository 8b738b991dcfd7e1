"""A weight for products with one row (a step), a few rows (verification) and many (prefill).

On a CPU one row is bound by reading the weight, and a few rows should cost the same. `Packed` keeps
the weight in the order of the native step (`native`), and nothing else: a row's product does
not depend on how many rows there are. `Dense` is torch's.

A weight in 8 bits has a scale for each output; what it is fed is rounded to as many of 16 bits as
leave sums exact, so its products are the same on every machine. torch has no such products: there
it stays in the format that it has.
"""

import ctypes
from abc import ABC, abstractmethod

import torch
from torch import Tensor

from speculative_tts.models.decoder.packed import rounded
from speculative_tts.models.gpu.products import Fused, product
from speculative_tts.models.gpu.tiles import FEW
from speculative_tts.models.gpu.triton_runtime import suits
from speculative_tts.native.library import library
from speculative_tts.native.memory import copied
from speculative_tts.native.step import FORMATS, NativeMatrix, pack, padded_vector, unpack


class Matrix(ABC):
    """x @ weight + bias, the weight [in, out], given with any strides."""

    shape: tuple[int, int]
    nbytes: int  # of weight and bias
    fed: torch.dtype  # format of what it takes and gives
    _weight: Tensor
    _bias: Tensor | None

    @abstractmethod
    def __call__(self, x: Tensor, addend: Tensor | None = None) -> Tensor:
        """Return x [rows, in] times the matrix, plus addend [rows, out] if there is one."""

    def in_float32(self, x: Tensor) -> Tensor:
        """Return the product [rows, out] in float32, not rounded to the weight's format first."""
        return self(x).float()

    @abstractmethod
    def dense(self) -> Tensor:
        """Return the weight [in, out]."""

    def columns(self, chosen: Tensor) -> "Matrix":
        """Return the columns of some outputs: [in, len(chosen)]."""
        bias = None if self._bias is None else self._bias[chosen]
        return matrix(self.dense()[:, chosen], bias)

    @abstractmethod
    def copied(self) -> "Matrix":
        """Return a copy in memory of its own."""

    def to(self, dtype: torch.dtype) -> "Matrix":
        """Return the matrix rounded to a format; itself if it has that format."""
        if self._weight.dtype is dtype:
            return self
        bias = None if self._bias is None else self._bias[: self.shape[1]]
        return matrix(self.dense(), bias, dtype)


def matrix(weight: Tensor, bias: Tensor | None = None, dtype: torch.dtype | None = None) -> Matrix:
    """Make a matrix for the kernels of this process (`native.library`).

    bias: [out]; dtype: float32, bfloat16 or int8, None for the weight's own.
    """
    native = library() if weight.device.type == "cpu" else None
    if dtype is torch.int8:
        if native is not None:
            steps, scale = rounded(weight.T)
            return Packed(native, steps.T, bias, scale)
        dtype = None
    weight = weight.to(dtype or weight.dtype)
    bias = None if bias is None else bias.to(weight.dtype)
    return Dense(weight, bias) if native is None else Packed(native, weight, bias)


class Packed(Matrix):
    """Panels of the native step; takes and gives float32, whatever the weight's format."""

    def __init__(
        self, native: ctypes.CDLL, weight: Tensor, bias: Tensor | None, scale: Tensor | None = None
    ) -> None:
        assert weight.dtype in FORMATS
        assert (scale is None) == (weight.dtype is not torch.int8)
        self.shape, self.fed = (weight.shape[0], weight.shape[1]), torch.float32
        vectors = [None if vector is None else padded_vector(vector) for vector in (bias, scale)]
        self._bias, self._scale = vectors
        self._native, self._weight = native, copied(native, pack(weight, native.sst_panel()))
        self.nbytes = weight.nbytes + sum(v.nbytes for v in (bias, scale) if v is not None)
        self.linear = self._linear()

    def __call__(self, x: Tensor, addend: Tensor | None = None) -> Tensor:
        """See `Matrix`."""
        assert x.shape[1] == self.shape[0]
        x = x.float().contiguous()
        out = torch.empty(len(x), self.shape[1])
        self._native.sst_product(
            ctypes.byref(self.linear), x.data_ptr(), len(x), out.data_ptr(), torch.get_num_threads()
        )
        return out if addend is None else out.add_(addend)

    def dense(self) -> Tensor:
        """See `Matrix`."""
        weight = unpack(self._weight, self.shape)
        return weight if self._scale is None else weight * self._scale[: self.shape[1]]

    def copied(self) -> "Packed":
        """See `Matrix`."""
        twin = object.__new__(Packed)
        vars(twin).update(vars(self))
        twin._weight = copied(self._native, self._weight)
        twin.linear = twin._linear()
        return twin

    def _linear(self) -> NativeMatrix:
        """Return the structure that the native step reads."""
        vectors = (self._bias, self._scale)
        pointers = (None if vector is None else vector.data_ptr() for vector in vectors)
        format_ = FORMATS.index(self._weight.dtype)
        return NativeMatrix(self._weight.data_ptr(), *pointers, *self.shape, format_, 0)


def packed(*matrices: Matrix) -> list[NativeMatrix]:
    """Return the structures of the native step; none unless all are packed."""
    linears = [m.linear for m in matrices if isinstance(m, Packed)]
    return linears if len(linears) == len(matrices) else []


class Dense(Matrix):
    """torch's products, on any device; on a GPU ours of few rows, where Triton is.

    There the weight lies in memory as [out, in]: rows of any number of outputs are aligned.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.shape, self.fed = (weight.shape[0], weight.shape[1]), weight.dtype
        self.nbytes = weight.nbytes + (0 if bias is None else bias.nbytes)
        self._bias = bias
        self._weight = weight.t().contiguous().t() if weight.is_cuda else weight.contiguous()

    def __call__(self, x: Tensor, addend: Tensor | None = None) -> Tensor:
        """See `Matrix`."""
        if self._ours(x):
            return product(x.contiguous(), self.by_output(), Fused(self._bias, addend))
        first, second = (self._bias, addend) if addend is None else (addend, self._bias)
        out = torch.mm(x, self._weight) if first is None else torch.addmm(first, x, self._weight)
        return out if second is None else out + second

    def in_float32(self, x: Tensor) -> Tensor:
        """See `Matrix`."""
        if not self._ours(x):
            return super().in_float32(x)
        fused = Fused(self._bias)
        return product(x.contiguous(), self.by_output(), fused, dtype=torch.float32)

    @property
    def bias(self) -> Tensor | None:
        """The vector added to the product: [out]."""
        return self._bias

    def by_output(self) -> Tensor:
        """Return the weight as [out, in], contiguous: the memory it lies in from now on.

        On a GPU it lies so since it was made: kernels read weights before they wait for the kernel
        before them, which therefore must not be the one that lays them out.
        """
        if not self._weight.t().is_contiguous():
            assert not self._weight.is_cuda, "make matrices on the GPU instead of moving them there"
            self._weight = self._weight.t().contiguous().t()
        return self._weight.t()

    def _ours(self, x: Tensor) -> bool:
        """True if a kernel of `models.gpu` takes such a product."""
        return len(x) <= FEW and x.dtype is self._weight.dtype and suits(x)

    def dense(self) -> Tensor:
        """See `Matrix`."""
        return self._weight

    def to(self, dtype: torch.dtype) -> Matrix:
        """See `Matrix`."""
        return self if dtype is torch.int8 else super().to(dtype)

    def copied(self) -> "Dense":
        """See `Matrix`."""
        bias = None if self._bias is None else self._bias.clone()
        return Dense(self._weight.clone(), bias)
