"""Tokens and rounds of speculation in one call (`walk.cpp`), by models that read table rows."""

import ctypes
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from speculative_tts.native.library import library
from speculative_tts.native.sample import Places as Sampled
from speculative_tts.native.sample import Rows, Sampling
from speculative_tts.native.step import NativeMatrix, NativeStack, PackedCache
from speculative_tts.native.structures import numbers, pointers
from speculative_tts.native.verify import Rule


class _TableReader(ctypes.Structure):
    _fields_ = (
        *pointers("model head pass_ embedding order lengths places skipped"),
        *numbers(ctypes.c_int32, "bfloat16 unused"),
    )


class _Tokens(ctypes.Structure):
    _fields_ = (
        *pointers("tokens uniforms again"),
        *numbers(ctypes.c_int64, "draws ahead"),
        *pointers("count limit done ends"),
    )


class NativeDrafter(ctypes.Structure):
    """The drafter of native rounds; see native.h."""

    _fields_ = (
        *pointers("reader heads search states recurrent lookup"),
        ("doubt", ctypes.c_double),
    )


class _Steps(ctypes.Structure):
    _fields_ = (
        *numbers(ctypes.c_int32, "purpose behind"),
        ("steps", ctypes.c_int64),
        *pointers("most laws"),
        ("doubt", ctypes.c_double),
    )


class _Rounds(ctypes.Structure):
    _fields_ = (
        ("rule", ctypes.c_void_p),
        *numbers(ctypes.c_int64, "lookahead rounds"),
        ("counts", ctypes.c_void_p),
        *numbers(ctypes.c_int32, "behind unused"),
        *pointers("seconds target draft"),
    )


@dataclass(frozen=True)
class Batch:
    """Tokens of a batch, changed in place (see `decoding.batch.BatchState`), and their sampler."""

    tokens: Tensor  # int64 [batch, capacity]
    uniforms: Tensor  # float64 [batch, capacity, draws]
    again: Tensor  # float64 [batch, capacity or 0, ahead, draws]
    count: Tensor  # int64 [batch]
    limit: Tensor  # int64 [batch]
    done: Tensor  # bool [batch]
    ends: Tensor  # bool [vocab + 1]
    places: Sampled
    sampling: Sampling

    def described(self) -> tuple[Rows, _Tokens]:
        """Return the structures that the calls read."""
        assert self.tokens.is_contiguous()
        assert self.uniforms.is_contiguous()
        p, vocab = self.places, len(self.ends) - 1
        kept = (p.minimum, p.barred, p.stops, p.history, p.prompted)
        rows = Rows(None, None, *(x.data_ptr() for x in kept), *self.tokens.shape[::-1], 1, vocab)
        states = (x.data_ptr() for x in (self.count, self.limit, self.done, self.ends))
        drawn = self.uniforms.data_ptr(), self.again.data_ptr() if self.again.numel() else None
        sizes = self.uniforms.shape[2], self.again.shape[2]
        return rows, _Tokens(self.tokens.data_ptr(), *drawn, *sizes, *states)


@dataclass(frozen=True)
class NativeModel:
    """A model as `walk.cpp` sees it; `order` has the embedding's row of each id, None: the id."""

    native: ctypes.CDLL
    stack: NativeStack
    head: NativeMatrix
    embedding: Tensor
    order: Tensor | None


@dataclass(frozen=True)
class PositionTable:
    """Position embeddings added to inputs: [positions, hidden], float32 as the embedding.

    skipped: int64 [batch], positions of each row before the first of them.
    """

    table: Tensor
    skipped: Tensor


class NativeSteps:
    """A model over the rows of one cache; lengths: int64 [batch], of their prompts."""

    def __init__(
        self,
        model: NativeModel,
        cache: PackedCache,
        lengths: Tensor,
        *,
        rotations: Tensor | None = None,
        places: PositionTable | None = None,
    ) -> None:
        self.native = model.native
        self._kept = (model, cache, rotations, lengths, places)
        self._pass = model.stack.at(cache, rotations)
        order = None if model.order is None else model.order.data_ptr()
        added: tuple[int | None, int | None] = (None, None)
        if places is not None:
            added = (places.table.data_ptr(), places.skipped.data_ptr())
        self.reader = _TableReader(
            ctypes.addressof(model.stack.model), ctypes.addressof(model.head),
            ctypes.addressof(self._pass), model.embedding.data_ptr(), order, lengths.data_ptr(),
            *added, model.embedding.dtype == torch.bfloat16, 0,
        )  # fmt: skip

    def drafter(self, doubt: float | None = None) -> NativeDrafter:
        """Return the model as the drafter of rounds; `doubt` as in `draft`."""
        made = NativeDrafter(ctypes.addressof(self.reader), doubt=_limit(doubt))
        made.kept = self
        return made

    def draft(
        self,
        batch: Batch,
        wanted: Tensor,
        *,
        steps: int,
        behind: int,
        purpose: int,
        doubt: float | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Write up to `steps` tokens after those of each row, provisionally.

        Returns how many of `wanted`, int64 [batch], each row has, fewer where one ended or had a
        distribution of more entropy than `doubt` (nats), and distributions [batch, made, vocab].
        """
        most, laws = wanted.clone(), torch.empty(len(wanted), steps, len(batch.ends) - 1)
        pointers = most.data_ptr(), laws.data_ptr()
        run = _Steps(purpose, behind, steps, *pointers, _limit(doubt))
        return most, laws[:, : self._run(batch, run)]

    def emit(self, batch: Batch, *, steps: int, purpose: int) -> None:
        """Emit the next `steps` tokens of each row, fewer of one that is done; `count` grows."""
        self._run(batch, _Steps(purpose, 1, steps, None, None, _limit(None)))

    def _run(self, batch: Batch, steps: _Steps) -> int:
        rows, tokens = batch.described()
        given = (ctypes.byref(x) for x in (self.reader, batch.sampling, rows, tokens, steps))
        made: int = self.native.sst_walk(*given)
        assert made >= 0, f"cache of {self._pass.room} positions is too short"
        return made


def _limit(doubt: float | None) -> float:
    return -1.0 if doubt is None else doubt


@runtime_checkable
class HasNativeSteps(Protocol):
    """A model that may make its tokens here."""

    def native_steps(self, cache: Any, lengths: Tensor) -> NativeSteps | None:
        """Return steps over a cache, prompts of these lengths; None where kernels are torch's."""


def emit(batch: Batch, logits: Tensor) -> None:
    """Emit the next token of each row by its logits, float32 [batch, vocab]."""
    native, logits, (rows, tokens) = library(), logits.contiguous(), batch.described()
    assert native is not None
    rows.logits = logits.data_ptr()
    native.sst_emit(*(ctypes.byref(x) for x in (batch.sampling, rows, tokens)))


class NativeRounds:
    """Makes rounds of speculation, and clocks their parts.

    counts: as `decoding.outcome.Tally`, added to. seconds: float64 [3], added to: drafting,
    verifying, accepting. `laws`, after `watch`: the target's and the draft's of the newest
    round, float32 [batch, lookahead, vocab], where a token was drafted, the target's up to the
    first rejection.
    """

    def __init__(
        self,
        target: NativeSteps,
        drafter: NativeDrafter,
        batch: Batch,
        counts: Tensor,
        *,
        rule: Rule,
        lookahead: int,
    ) -> None:
        rows, tokens = batch.described()
        self.seconds = torch.zeros(3, dtype=torch.float64)
        self.laws: tuple[Tensor, Tensor] | None = None
        seconds = self.seconds.data_ptr()
        self._made = _Rounds(ctypes.addressof(rule), lookahead, 0, counts.data_ptr(), 1, 0, seconds)
        parts = (target.reader, drafter, batch.sampling, rows, tokens, self._made)
        self._given = [ctypes.byref(part) for part in parts]
        self._kept = (target, drafter, batch, counts, rule)  # what the structures point into

    def watch(self) -> None:
        """Keep the distributions of the newest round in `laws`."""
        batch = self._kept[2]
        size = (len(batch.count), self._made.lookahead, len(batch.ends) - 1)
        self.laws = torch.zeros(size), torch.zeros(size)
        self._made.target, self._made.draft = (law.data_ptr() for law in self.laws)

    def __call__(self, number: int) -> None:
        """Run up to `number` rounds, fewer if the batch is done."""
        self._made.rounds = number
        native = self._kept[0].native
        assert native.sst_rounds(*self._given) >= 0, "a cache is too short"
