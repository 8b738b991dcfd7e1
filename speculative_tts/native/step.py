"""The structures of `native.h`, and a stack of layers that it runs."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from speculative_tts.native.structures import numbers, pointers

PANEL, BLOCK, SLACK = 32, 16, 64  # as in step.cpp; the widest panel
WIDEST_HEAD = 512
FORMATS = (torch.float32, torch.bfloat16, torch.int8)  # as in native.h
NORMS, GAINS = ("gain1", "bias1", "gain2", "bias2"), ("query_gain", "key_gain")
Norm = tuple[Tensor, Tensor]  # gain and bias


class NativeMatrix(ctypes.Structure):
    """x @ weight + bias."""

    _fields_ = (
        *pointers("panels bias scale"),
        *numbers(ctypes.c_int32, "inputs outputs format unused"),
    )


class _Layer(ctypes.Structure):
    _fields_ = (
        *((name, NativeMatrix) for name in ("qkv", "out", "up", "down")),
        *pointers(" ".join((*NORMS, *GAINS))),
    )


class _Model(ctypes.Structure):
    _fields_ = (
        *pointers("layers gain bias"),
        *numbers(ctypes.c_int32, "count hidden heads kv_heads head_dim intermediate"),
        *numbers(ctypes.c_int32, "gated layer_norm norm_first"),
        *numbers(ctypes.c_float, "eps head_eps"),
    )


class Pass(ctypes.Structure):
    """A model that a native step runs; see native.h."""

    _fields_ = (
        *pointers("inputs start rotations cache hidden"),
        *numbers(ctypes.c_int32, "batch fresh capacity rows first prefix threads room keep taps"),
        *pointers("tap_layers tapped"),
        ("tap_stride", ctypes.c_int64),
    )


class Observed(Protocol):
    """Asks for what some layers are fed; `models.decoder.taps` is it."""

    layers: tuple[int, ...]

    def see(self, layer: int, states: Tensor) -> None:
        """Take the states [batch, new, hidden] that a layer is fed."""


class PassSpan(NamedTuple):
    """New positions of a pass that all rows see, and those whose states are returned."""

    prefix: int = 0  # the first positions
    keep: int | None = None  # the last positions; None: all


WHOLE = PassSpan()


@dataclass(frozen=True)
class PackedCache:
    """Keys and values as `step.cpp` keeps them: each head's keys are [head_dim, capacity].

    storage: float32 [layers, rows, kv_heads, keys and values of a head], and some slack at the end.
    """

    storage: Tensor
    capacity: int
    rows: int
    batch: int
    first: int = 0

    @classmethod
    def allocate(
        cls, layers: int, batch: int, kv_heads: int, capacity: int, head_dim: int
    ) -> "PackedCache":
        """Allocate zeros, as `cache.KVCache.allocate` does.

        Capacity is rounded up to an odd number of cache lines: neighbouring rows of keys then do
        not fall on the same few places of the processor's caches.
        """
        lines = -(-capacity // BLOCK)
        wide = BLOCK * (lines + 1 - lines % 2)
        head = (head_dim + -(-head_dim // BLOCK) * BLOCK) * wide
        return cls(torch.zeros(layers * batch * kv_heads * head + SLACK), wide, batch, batch)

    def row(self, index: int) -> "PackedCache":
        """Return one row as a cache of batch 1 in the same storage, to prefill ragged prompts."""
        return PackedCache(self.storage, self.capacity, self.rows, 1, self.first + index)

    def clear(self) -> None:
        """Do nothing: entries past a row's length are never read."""


@dataclass(frozen=True)
class StackShape:
    """Sizes and options of a stack (see `Model` in native.h)."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    eps: float
    gated: bool = True
    layer_norm: bool = False
    norm_first: bool = True
    head_eps: float = 0.0


@dataclass(frozen=True)
class LayerWeights:
    """One layer: four matrices, and two LayerNorms where the stack has them.

    gains: of each query and then of each key head's RMSNorm, [heads, head_dim], all heads' alike.
    """

    matrices: Sequence[NativeMatrix]
    norms: tuple[Norm, Norm] | None = None
    gains: Tensor | None = None

    def vectors(self) -> dict[str, Tensor]:
        """Return the vectors that the layer has, by the names of its structure."""
        norms = [vector for norm in self.norms or () for vector in norm]
        gains = () if self.gains is None else self.gains[[0, -1]]
        return dict(zip((*NORMS, *GAINS) if norms else GAINS, (*norms, *gains), strict=False))


class NativeStack:
    """Layers and the final norm; keeps the tensors that its structures point to.

    Matrices must be kept by the caller.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        shape: StackShape,
        layers: Sequence[LayerWeights],
        norm: Norm | None,
    ) -> None:
        assert shape.head_dim <= WIDEST_HEAD, f"heads of {shape.head_dim} dimensions"
        self._extend, self.shape = library.sst_extend, shape
        self._kept: list[Tensor] = []
        self._layers = (_Layer * len(layers))(
            *(
                _Layer(*layer.matrices, **{n: self._at(v) for n, v in layer.vectors().items()})
                for layer in layers
            )
        )
        final = [] if norm is None else [self._at(vector) for vector in norm]
        self.model = _Model(
            ctypes.addressof(self._layers), *(*final, None, None)[:2], len(layers),
            shape.hidden, shape.heads, shape.kv_heads, shape.head_dim, shape.intermediate,
            shape.gated, shape.layer_norm, shape.norm_first, shape.eps, shape.head_eps,
        )  # fmt: skip

    def cache(self, batch: int, capacity: int) -> PackedCache:
        """Return storage for `batch` rows of up to `capacity` positions."""
        s = self.shape
        return PackedCache.allocate(len(self._layers), batch, s.kv_heads, capacity, s.head_dim)

    def extend(
        self,
        inputs: Tensor,
        cache: PackedCache,
        start: Tensor,
        span: PassSpan = WHOLE,
        *,
        rotations: Tensor | None = None,
        taps: Observed | None = None,
    ) -> Tensor:
        """Do `Decoder.extend`, in float32; rotations: float32 [positions, head_dim]."""
        batch, fresh, _ = inputs.shape
        assert batch == cache.batch == len(start)
        inputs, start = inputs.float().contiguous(), start.contiguous()
        hidden = torch.empty_like(inputs)
        run = self.at(cache, rotations)
        run.inputs, run.start, run.hidden = inputs.data_ptr(), start.data_ptr(), hidden.data_ptr()
        run.fresh, run.prefix = fresh, span.prefix
        run.keep = fresh if span.keep is None else span.keep
        chosen = () if taps is None else taps.layers
        layers = (ctypes.c_int32 * len(chosen))(*chosen)
        tapped = inputs.new_empty(len(chosen), *inputs.shape)
        run.taps, run.tap_layers = len(chosen), ctypes.addressof(layers)
        run.tapped, run.tap_stride = tapped.data_ptr(), inputs.numel()
        longest = self._extend(ctypes.byref(self.model), ctypes.byref(run))
        assert longest <= run.room, f"cache of {run.room} positions cannot hold {longest}"
        for layer, states in zip(chosen, tapped, strict=True):
            assert taps is not None
            taps.see(layer, states)
        return hidden[:, -run.keep :]

    def at(self, cache: PackedCache, rotations: Tensor | None) -> Pass:
        """Return a pass over these rows, without what is fed."""
        turns, room = None, cache.capacity
        if rotations is not None:
            turns, room = rotations.data_ptr(), min(room, len(rotations))
        return Pass(
            None, None, turns, cache.storage.data_ptr(), None, cache.batch, 0, cache.capacity,
            cache.rows, cache.first, 0, torch.get_num_threads(), room, 0,
        )  # fmt: skip

    def _at(self, vector: Tensor) -> int:
        """Return the address of a copy as float32, padded with zeros."""
        self._kept.append(padded_vector(vector))
        return self._kept[-1].data_ptr()


def pack(weight: Tensor, panel: int) -> Tensor:
    """Pack [in, out] as panels of columns, zeros after the last: a view [panels, in, panel, 1].

    Of all but float32 two inputs lie side by side: [panels, in / 2, panel, 2].
    """
    step = 1 if weight.dtype == torch.float32 else 2
    missing = -weight.shape[1] % panel, -weight.shape[0] % step
    whole = F.pad(weight, (0, missing[0], 0, missing[1])) if any(missing) else weight
    return whole.view(-1, step, whole.shape[1] // panel, panel).permute(2, 0, 3, 1)


def unpack(panels: Tensor, shape: tuple[int, int]) -> Tensor:
    """Undo `pack`: return the weight [in, out]."""
    inputs, outputs = shape
    rows = panels.permute(1, 3, 0, 2).flatten(2).flatten(0, 1)
    return rows[:inputs, :outputs].contiguous()


def padded_vector(vector: Tensor) -> Tensor:
    """Return float32 with zeros up to a whole number of panels."""
    return F.pad(vector.detach().float(), (0, -len(vector) % PANEL)).contiguous()
