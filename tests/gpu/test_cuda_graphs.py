"""What only a GPU can show: `pytest -m gpu`."""

import pytest
import torch
from decoders import STOPS, build, requests, state
from static_loops import (
    DRAFTERS,
    RULES,
    SAMPLERS,
    moved,
    rounds,
    speculation,
)

from speculative_tts.decoding.loops.graphs import Graphs, cuda_graph
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.native import library
from speculative_tts.schema.decode import Kernels

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can see"),
]
CUDA = torch.device("cuda")
KINDS = [
    *((name, "ras", "lm") for name in RULES),
    *(("exact", name, "lm") for name in SAMPLERS if name != "ras"),
    *(("tolerance", "all", name) for name in DRAFTERS if name != "lm"),
]


@pytest.fixture(autouse=True)
def torchs_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights as a GPU has them."""
    monkeypatch.setattr(library, "_choice", Kernels.torch)


@pytest.mark.parametrize("kind", KINDS)
def test_captured_rounds_give_the_tokens_of_eager_ones(kind: tuple[str, str, str]) -> None:
    """And counts, of several batches in the same tensors."""
    batches = moved([requests(4), requests(4, seed=5), requests(1, seed=2)], CUDA)
    made, graphs = moved(speculation(*kind), CUDA), Graphs(cuda_graph)
    for batch in batches:
        assert made.decode(batch, graphs=graphs) == made.decode(batch)


def test_captured_tokens_one_by_one() -> None:
    target, graphs = moved(build(state(3)), CUDA), Graphs(cuda_graph)
    for batch in moved([requests(4), requests(4, seed=5)], CUDA):
        eager = autoregressive(target, STOPS, SAMPLERS["ras"], batch)
        assert autoregressive(target, STOPS, SAMPLERS["ras"], batch, graphs) == eager


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_a_round_does_not_wait_for_the_device(kind: tuple[str, str, str]) -> None:
    loop = rounds(moved(speculation(*kind), CUDA), moved(requests(3), CUDA))
    loop.step()  # libraries set themselves up
    torch.cuda.set_sync_debug_mode("error")
    try:
        loop.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
