"""Tokens one by one in one call (`walk.cpp`): by a model whose inputs are rows of a table."""

import ctypes
from dataclasses import dataclass

import torch
from torch import Tensor

from speculative_tts.models.native.sample import Places, Rows, Sampling
from speculative_tts.models.native.step import Linear, PackedCache, Stack


class _Walk(ctypes.Structure):
    _fields_ = (
        ("embedding", ctypes.c_void_p),
        ("order", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in ("bfloat16", "purpose", "behind", "emit")),
        ("steps", ctypes.c_int64),
        ("tokens", ctypes.c_void_p),
        ("uniforms", ctypes.c_void_p),
        ("draws", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("lengths", "count", "most", "ends", "laws")),
    )


@dataclass(frozen=True)
class Batch:
    """Tokens of a batch, changed in place; see `decoding.batch.BatchState`."""

    tokens: Tensor  # int64 [batch, capacity]
    uniforms: Tensor  # float64 [batch, capacity, draws]
    lengths: Tensor  # int64 [batch], of the prompts
    count: Tensor  # int64 [batch]
    most: Tensor  # int64 [batch]: tokens wanted of each row
    ends: Tensor  # bool [vocab + 1]


@dataclass(frozen=True)
class Walker:
    """A model as `walk.cpp` sees it; `order` has the embedding's row of each id, None: the id."""

    native: ctypes.CDLL
    stack: Stack
    head: Linear
    embedding: Tensor
    order: Tensor | None

    def draft(
        self,
        cache: PackedCache,
        rotations: Tensor,
        sampling: Sampling,
        places: Places,
        batch: Batch,
        *,
        steps: int,
        behind: int,
        purpose: int,
    ) -> Tensor:
        """Up to `steps` tokens behind those of each row, provisionally: laws [batch, made, vocab].

        `batch.most` comes back smaller for a row that ended.
        """
        laws = torch.empty(len(batch.count), steps, self.head.outputs)
        walk = self._walk(batch, steps, behind, purpose, laws)
        return laws[:, : self._run(cache, rotations, sampling, places, walk)]

    def emit(
        self,
        cache: PackedCache,
        rotations: Tensor,
        sampling: Sampling,
        places: Places,
        batch: Batch,
        *,
        steps: int,
        purpose: int,
    ) -> None:
        """Tokens of each row until it is done, `steps` at most; `count` grows, `most` is left."""
        walk = self._walk(batch, steps, 1, purpose, None)
        self._run(cache, rotations, sampling, places, walk)

    def _walk(
        self, batch: Batch, steps: int, behind: int, purpose: int, laws: Tensor | None
    ) -> _Walk:
        b, half = batch, self.embedding.dtype == torch.bfloat16
        order = None if self.order is None else self.order.data_ptr()
        kept = (b.lengths, b.count, b.most, b.ends)
        assert b.tokens.is_contiguous()
        assert b.uniforms.is_contiguous()
        return _Walk(
            self.embedding.data_ptr(), order, half, purpose, behind, laws is None, steps,
            b.tokens.data_ptr(), b.uniforms.data_ptr(), b.uniforms.shape[2],
            *(tensor.data_ptr() for tensor in kept), None if laws is None else laws.data_ptr(),
        )  # fmt: skip

    def _run(
        self,
        cache: PackedCache,
        rotations: Tensor,
        sampling: Sampling,
        places: Places,
        walk: _Walk,
    ) -> int:
        run = self.stack.at(cache, rotations)
        kept = (places.minimum, places.barred, places.stops, places.history)
        rows = Rows(
            None, None, *(tensor.data_ptr() for tensor in kept), places.history.shape[1],
            len(places.minimum), 1, self.head.outputs,
        )  # fmt: skip
        made: int = self.native.sst_walk(
            ctypes.byref(self.stack.model), ctypes.byref(self.head), ctypes.byref(run),
            ctypes.byref(sampling), ctypes.byref(rows), ctypes.byref(walk),
        )  # fmt: skip
        assert made >= 0, f"cache of {run.room} positions is too short"
        return made
