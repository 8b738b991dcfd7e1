"""Record what a function launches as a CUDA graph, and say where recording pays."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")
_replaying = False


@contextmanager
def uncollected() -> Iterator[None]:
    """Hold cyclic garbage collection off: a dead graph destroyed during a capture breaks it."""
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def replays() -> Iterator[None]:
    """Let prefills be recorded: their cache is kept for further batches."""
    global _replaying  # noqa: PLW0603 - of the process, as `host.fixed`
    before, _replaying = _replaying, True
    try:
        yield
    finally:
        _replaying = before


def replaying() -> bool:
    """Return whether prefills may be recorded."""
    return _replaying


def recorded(
    function: Callable[[], Result], pool: Any = None
) -> tuple[torch.cuda.CUDAGraph, Result]:
    """Record a function that ran before, so that libraries are set up.

    Returns the graph and the result, whose tensors each replay fills. Graphs of one pool share
    memory: what one leaves must be read before another is replayed.
    """
    graph = torch.cuda.CUDAGraph()
    with uncollected(), torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        result = function()
    return graph, result
