"""Real-size random weights, here of a shrunken shape."""

import dataclasses

import pytest
import torch

from speculative_tts.bench import random_cosyvoice
from speculative_tts.bench.random import computed
from speculative_tts.decoding.acceptance import Tolerance

pytestmark = pytest.mark.usefixtures("kernels")

SMALL = dataclasses.replace(
    random_cosyvoice.CONFIG,
    hidden=32,
    heads=4,
    head_dim=8,
    intermediate=48,
    vocab_size=random_cosyvoice.CODES + 3 + 100 + 2,
)


def test_random_weights_decode_and_the_draft_is_sometimes_right() -> None:
    target = random_cosyvoice.cosyvoice2(torch.float32, torch.device("cpu"), 0, SMALL)
    draft = random_cosyvoice.draft_of(target)
    assert draft.decoder.layers[2] is target.decoder.layers[18]
    runs = random_cosyvoice.continue_prompts(
        target, draft, Tolerance(0.0), lookahead=3, tokens=20, count=2, seed=0
    )
    for own in runs.values():
        assert [len(run.outcome.tokens) for run in own] == [20, 20]
    drafted = sum(run.outcome.counts.drafted for run in runs["speculative"])
    accepted = sum(run.outcome.counts.accepted for run in runs["speculative"])
    assert 0 < accepted < drafted


def test_speedup_of_a_free_perfect_draft() -> None:
    steps = {"target step (1 token)": 1.0, "verify": 1.0, "draft step (1 token)": 0.0}
    assert computed(steps, 1.0, 3) == 4.0
    assert computed(steps, 0.0, 3) == 1.0
