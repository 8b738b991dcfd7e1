"""Heads, path search and blocks of tokens (`blocks.cpp`, `search.cpp`)."""

import ctypes
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from speculative_tts.native.step import NativeMatrix
from speculative_tts.native.structures import numbers, pointers
from speculative_tts.native.walk import Batch, NativeDrafter, NativeSteps


class NativeHeads(ctypes.Structure):
    """n predictions from one state; see native.h."""

    _fields_ = (
        ("project", ctypes.POINTER(NativeMatrix)),
        ("blocks", ctypes.POINTER(NativeMatrix)),
        ("n", ctypes.c_int64),
    )

    @classmethod
    def of(cls, project: Sequence[NativeMatrix], blocks: Sequence[NativeMatrix]) -> "NativeHeads":
        """Make them of matrices that the caller keeps; blocks: one a head, or none."""
        n = len(project)
        return cls((NativeMatrix * n)(*project), (NativeMatrix * n)(*blocks) if blocks else None, n)


class _Transitions(ctypes.Structure):
    _fields_ = (*pointers("table keys seen row column"), *numbers(ctypes.c_int64, "ids pairs"))


class Search(ctypes.Structure):
    """Settings of a path search; see native.h."""

    _fields_ = (
        ("transitions", ctypes.POINTER(_Transitions)),
        ("top_k", ctypes.c_int64),
        ("temperature", ctypes.c_float),
        *numbers(ctypes.c_int32, "joint boundary sample end_when_likeliest unused"),
    )


class _Blocks(ctypes.Structure):
    _fields_ = (
        ("heads", ctypes.POINTER(NativeHeads)),
        ("search", ctypes.POINTER(Search)),
        ("blocks", ctypes.c_int64),
        *pointers("made dead"),
    )


def search(
    ids: int, transitions: Mapping[str, Tensor], *, top_k: int, temperature: float, **options: bool
) -> Search:
    """Describe the path search of `decoding.blocks.choosers.ViterbiHeads`.

    transitions: by their names in native.h. options: joint, boundary, sample, end_when_likeliest.
    """
    kept = {name: tensor.contiguous() for name, tensor in transitions.items()}
    pointers = {name: tensor.data_ptr() for name, tensor in kept.items()}
    table = _Transitions(**pointers, ids=ids, pairs=len(kept.get("keys", ())))
    made = Search(ctypes.pointer(table), top_k, temperature, **options)
    made.kept = kept  # what the structures point into
    return made


def logits(native: ctypes.CDLL, heads: NativeHeads, hidden: Tensor, vocab: int) -> Tensor:
    """Return logits, float32 [batch, n, vocab], of states [batch, hidden]."""
    hidden = hidden.float().contiguous()
    out = torch.empty(heads.n, len(hidden), vocab)
    given = (hidden.data_ptr(), len(hidden), out.data_ptr(), torch.get_num_threads())
    native.sst_heads(ctypes.byref(heads), *given)
    return out.transpose(0, 1)


def drafter(heads: NativeHeads, search: Search | None, states: Tensor) -> NativeDrafter:
    """Return heads as the drafter of rounds; states: float32 [batch, hidden], which do not move.

    search: None: each head by the batch's sampler.
    """
    chosen = None if search is None else ctypes.addressof(search)
    made = NativeDrafter(None, ctypes.addressof(heads), chosen, states.data_ptr())
    made.kept = (heads, search, states)
    return made


def blocks(
    target: NativeSteps,
    batch: Batch,
    heads: NativeHeads,
    search: Search | None,
    made: Tensor,
    dead: Tensor,
) -> Callable[[int], None]:
    """Return a function that runs up to `number` blocks of the batch.

    search: None: each head by the batch's sampler. made, dead: int64 [batch], added to.
    """
    rows, tokens = batch.described()
    chosen = None if search is None else ctypes.pointer(search)
    run = _Blocks(ctypes.pointer(heads), chosen, 0, made.data_ptr(), dead.data_ptr())
    given = [ctypes.byref(x) for x in (target.reader, batch.sampling, rows, tokens, run)]
    kept = (target, batch, made, dead)  # what the structures point into

    def go(number: int) -> None:
        run.blocks = number
        assert kept[0].native.sst_blocks(*given) >= 0, "the cache is too short"

    return go
