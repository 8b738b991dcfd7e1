"""Recording a CUDA graph, with a stand-in for torch's."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from speculative_tts.models.gpu.capture import recorded


class Cycle:
    """What only the cyclic collector frees, as a dead graph in a closure is; it tells when."""

    def __init__(self, freed: list[str]) -> None:
        self.own, self.freed = self, freed

    def __del__(self) -> None:
        self.freed.append("freed")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A torch without a GPU that records nothing, and what it was told."""
    said: dict[str, Any] = {}

    @contextmanager
    def graph(made: object, **options: Any) -> Iterator[None]:
        said.update(options, collects=gc.isenabled())
        yield

    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    was_on = gc.isenabled()
    yield said
    (gc.enable if was_on else gc.disable)()


def test_nothing_is_collected_while_a_graph_is_recorded(told: dict[str, Any]) -> None:
    """A dead graph that was destroyed during a capture broke it (two tests of 45 on an H100).

    What was dead before goes before; what dies meanwhile after.
    """
    freed: list[str] = []
    gc.enable()
    threshold = gc.get_threshold()
    Cycle(freed)

    def step() -> int:
        assert freed == ["freed"]
        gc.set_threshold(1)
        for _ in range(100):
            Cycle(freed)
        return len(freed)

    try:
        _, seen = recorded(step)
    finally:
        gc.set_threshold(*threshold)
    assert seen == 1
    assert told == {"pool": None, "capture_error_mode": "thread_local", "collects": False}
    assert gc.isenabled()
    gc.collect()
    assert len(freed) == 101


@pytest.mark.parametrize("on", [True, False])
def test_collection_is_as_it_was_after_a_capture_that_failed(
    told: dict[str, Any], *, on: bool
) -> None:
    (gc.enable if on else gc.disable)()
    with pytest.raises(RuntimeError, match="no capture"):
        recorded(_fails)
    assert gc.isenabled() is on


def _fails() -> None:
    raise RuntimeError("no capture")
