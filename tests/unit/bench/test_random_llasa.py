"""LLaSA's shape with random weights, shrunken."""

import dataclasses

import pytest
import torch

from speculative_tts.bench import random_llasa
from speculative_tts.bench.random_cosyvoice import continue_prompts
from speculative_tts.decoding.acceptance import Tolerance

pytestmark = pytest.mark.usefixtures("kernels")

SMALL = dataclasses.replace(
    random_llasa.CONFIG, hidden=16, heads=4, kv_heads=2, head_dim=4, intermediate=24
)


def test_random_weights_of_llasas_shape_decode() -> None:
    target = random_llasa.llasa_1b(torch.float32, torch.device("cpu"), 0, SMALL)
    draft = random_llasa.draft_of(target)
    assert target.vocab_size == draft.vocab_size == 65_537
    assert draft.decoder.layers[1] is target.decoder.layers[7]
    assert len({id(layer.qkv) for layer in target.decoder.layers}) == 16  # copies, not one layer
    runs = continue_prompts(
        target,
        draft,
        Tolerance(0.0),
        lookahead=3,
        tokens=6,
        count=1,
        seed=0,
        use=random_llasa.LLASA_1B,
    )
    assert [len(own[0].outcome.tokens) for own in runs.values()] == [6, 6]
