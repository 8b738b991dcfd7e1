"""A recurrent layer and heads by kernels beside torch's."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from computing import computing
from head_stubs import layer_tensors
from planted import STEPS, finds
from static_loops import moved
from torch import Tensor
from triton_tests import DEVICE, needs_triton, rounded

from speculative_tts.models.decoder.matrix import matrix
from speculative_tts.models.gpu.norms import spread
from speculative_tts.models.gpu.triton_runtime import anywhere
from speculative_tts.models.heads import Heads, HeadTensors
from speculative_tts.models.recurrent import RecurrentLayer
from speculative_tts.schema.decode import Kernels

pytestmark = [needs_triton, pytest.mark.usefixtures("torchs_kernels")]
HIDDEN, VOCAB = 24, 30


@contextmanager
def by_kernels() -> Iterator[None]:
    """Compute with Triton: on a GPU torch's kernels, which were chosen, would be compared with
    themselves.
    """
    with computing(Kernels.triton), anywhere():
        yield


def layer(few: list[int] | None = None) -> RecurrentLayer:
    g = torch.Generator().manual_seed(1)
    head = matrix(torch.randn(HIDDEN, VOCAB, generator=g))
    ids = None if few is None else torch.tensor(few)
    made: RecurrentLayer = moved(
        RecurrentLayer(layer_tensors(HIDDEN, 40), head, torch.float32, ids), DEVICE
    )
    return made


def distance(made: RecurrentLayer) -> float:
    """How far states and logits after two tokens are from torch's."""
    g = torch.Generator().manual_seed(2)
    given = rounded(3, HIDDEN, generator=g), rounded(3, HIDDEN, generator=g)

    def after() -> Tensor:
        states = made(made(*given), given[1])
        return torch.cat([states, made.logits(states)], 1)

    with by_kernels():
        found = after()
    return float((found - after()).nan_to_num(0.0).abs().max())


@pytest.mark.parametrize("few", [None, [1, 4, 29]])
def test_a_recurrent_layer_is_torchs(few: list[int] | None) -> None:
    assert distance(layer(few)) < 1e-4  # 2e-5 on an H100: another order of its sums


FAULTS = [
    ("product", "y = y / (1.0 + tl.exp(-y))\n    if GATED", "y = y\n    if GATED"),
    ("norm", "out + row * 2 * K + K + i, x", "out + row * 2 * K + K + i - 1, x"),
    ("norm", "inputs + row * K + i, mask=i < K", "inputs + row * K + i, mask=i < K - 1"),
    ("norm", "few + row * FEW + place", "few + place"),
    ("norm", "mask=place >= 0", "mask=place > 0"),
]


def differs() -> bool:
    """A fault that left memory unwritten warned of what happened to lie there, now and then, and
    four tests failed: three of them since the kernels stayed chosen.
    """
    with np.errstate(all="ignore"):
        return max(distance(layer()), distance(layer([1, 4, 29]))) > 1e-3


test_a_planted_fault_is_found = finds([(*fault, differs) for fault in FAULTS], STEPS)


def test_ids_that_are_never_drafted_have_no_chance() -> None:
    few, places = torch.tensor([[1.0, 2.0]], device=DEVICE), torch.full((5,), -1, device=DEVICE)
    places[3], places[1] = 0, 1
    found = spread(few, places.int()).tolist()[0]
    assert found == [-torch.inf, 2.0, -torch.inf, 1.0, -torch.inf]


@pytest.mark.parametrize("bias", [False, True])
def test_linear_heads_are_one_product(bias: bool) -> None:
    g = torch.Generator().manual_seed(3)
    weight, extra = rounded(4, VOCAB, HIDDEN, generator=g), rounded(4, VOCAB, generator=g)
    made = Heads(HeadTensors(weight, extra if bias else None))
    hidden = rounded(2, HIDDEN, generator=g)
    with by_kernels():
        found = made(hidden)
    assert torch.allclose(found, made(hidden), atol=1e-4)
    assert found.shape == (2, 4, VOCAB)
