"""Rounds of kernels leave torch nothing but looking up embeddings and moving results.

Counted on tensors without numbers, where launches do nothing: each operation of torch that makes a
tensor, or changes one, would be a kernel of its own in the captured round.
"""

from collections import Counter
from pathlib import Path

import pytest
import torch
from block_folders import random_block
from decoders import STOPS, build, requests, state
from static_loops import (
    DRAFTERS,
    LOOKAHEAD,
    RULES,
    SAMPLERS,
    moved,
    other_loops,
    rounds,
    speculation,
)
from triton_tests import needs_triton

from speculative_tts.decoding.drafters.block import BlockDrafter
from speculative_tts.decoding.loops.graphs import Loop
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.models.gpu.triton_runtime import anywhere
from speculative_tts_benchmarks.gpu_limits import TorchKernels

pytestmark = [needs_triton, pytest.mark.usefixtures("torchs_kernels")]
META = torch.device("meta")
SHIPPED = ("exact", "tolerance", "groups", "block", "block of groups")
MOVES = {"embedding", "cat", "copy_", "contiguous"}


@torch.inference_mode()
def operations(loop: Loop) -> Counter[str]:
    """Count operations of a step, the second: what is made once is there."""
    loop.step()
    with TorchKernels() as mode:
        loop.step()
    return Counter(mode.seen)


@pytest.mark.parametrize(
    ("rule", "sampler", "drafter"),
    [
        *((rule, "ras", "lm") for rule in SHIPPED),
        *(("exact", sampler, "lm") for sampler in SAMPLERS if sampler != "ras"),
        *(("exact", "ras, older", drafter) for drafter in DRAFTERS if drafter != "lm"),
    ],
)
def test_a_round_is_fused(rule: str, sampler: str, drafter: str) -> None:
    with anywhere():
        loop = rounds(moved(speculation(rule, sampler, drafter), META), moved(requests(3), META))
        seen = operations(loop)
    assert seen.keys() <= MOVES
    assert seen["embedding"] <= LOOKAHEAD + 1  # one a pass, of target and drafter
    assert seen.total() - seen["embedding"] <= 5


@pytest.mark.parametrize("name", [*SAMPLERS, *(name for name in DRAFTERS[4:])])
def test_a_step_is_fused(name: str) -> None:
    with anywhere():
        loop = moved(other_loops()[name], META)
        loop.load(moved(requests(3), META))
        seen = operations(loop)
    assert seen.keys() <= MOVES
    assert seen.total() <= 3


def test_what_a_block_drafters_round_leaves_to_torch() -> None:
    """docs/gpu.md says it: norms, rotation and attention of its layers have no kernels."""
    with anywhere():
        block: BlockDrafter = moved(random_block(build(state(3))), META)
        parts = RULES["exact"], SAMPLERS["all"], STOPS, LOOKAHEAD
        seen = operations(
            rounds(Speculation(block.verifier, block, *parts), moved(requests(3), META))
        )
    page = (Path(__file__).parents[4] / "docs" / "gpu.md").read_text(encoding="utf-8")
    assert f"torch has {seen.total()} kernels a round of two layers" in page


def test_the_count_sees_torchs_kernels() -> None:
    """Fifty and more a round without ours."""
    loop = rounds(moved(speculation("exact", "ras", "lm"), META), moved(requests(3), META))
    seen = operations(loop)
    assert seen.total() > 50 * (LOOKAHEAD + 1)
    assert not seen.keys() <= MOVES
