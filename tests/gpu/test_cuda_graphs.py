"""What only a GPU can show: `pytest -m gpu`."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from computing import computing
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


@pytest.fixture(autouse=True, params=[Kernels.torch, Kernels.auto])
def kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    """By torch's kernels, and by Triton's where they are usable."""
    with computing(request.param):
        yield


def on_gpu(make: Callable[..., Any], *given: Any) -> Any:
    """Made on the CPU with torch's weights, which is how a GPU has them, and moved there."""
    with computing(Kernels.torch):
        return moved(make(*given), CUDA)


@pytest.mark.parametrize("kind", KINDS)
def test_captured_rounds_give_the_tokens_of_eager_ones(kind: tuple[str, str, str]) -> None:
    """And counts, of several batches in the same tensors."""
    batches = moved([requests(4), requests(4, seed=5), requests(1, seed=2)], CUDA)
    made, graphs = on_gpu(speculation, *kind), Graphs(cuda_graph)
    for batch in batches:
        assert made.decode(batch, graphs=graphs) == made.decode(batch)


@pytest.mark.parametrize("drafter", ["lm", "drawn path", "drawn path, boundary"])
def test_first_rounds_of_models_just_made(drafter: str) -> None:
    """Ten times: two failed of fifty kinds, where weights were laid out within the first round."""
    (batch,) = moved([requests(4)], CUDA)
    kind = "tolerance", "all", drafter
    eager = on_gpu(speculation, *kind).decode(batch)
    for _ in range(10):
        assert on_gpu(speculation, *kind).decode(batch, graphs=Graphs(cuda_graph)) == eager


def test_captured_tokens_one_by_one() -> None:
    target, graphs = on_gpu(build, state(3)), Graphs(cuda_graph)
    for batch in moved([requests(4), requests(4, seed=5)], CUDA):
        eager = autoregressive(target, STOPS, SAMPLERS["ras"], batch)
        assert autoregressive(target, STOPS, SAMPLERS["ras"], batch, graphs) == eager


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_a_round_does_not_wait_for_the_device(kind: tuple[str, str, str]) -> None:
    """torch 2.11 warns of its own debug mode: outside the `try` that left the mode on for all."""
    loop = rounds(on_gpu(speculation, *kind), moved(requests(3), CUDA))
    loop.step()  # libraries set themselves up
    try:
        torch.cuda.set_sync_debug_mode("error")
        loop.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_of_triton_are_torchs(
    kind: tuple[str, str, str],
) -> None:
    """In float32: sums differ in their last bits, which moves a token once in a million draws."""
    if library.chosen() is Kernels.torch:
        pytest.skip("compared with itself")
    made, asked = on_gpu(speculation, *kind), moved(requests(4), CUDA)
    found = made.decode(asked)
    with computing(Kernels.torch):
        assert made.decode(asked) == found
