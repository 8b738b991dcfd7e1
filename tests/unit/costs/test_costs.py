"""The clock and the random layers that costs are measured with."""

import dataclasses
import time
from functools import partial
from itertools import groupby

import pytest
import torch

from speculative_tts.costs.hours import JOBS, counted, pass_seconds
from speculative_tts.costs.layers import random_decoder
from speculative_tts.costs.timer import WARM_UP, clock_of, median_seconds, medians

CPU = torch.device("cpu")


def test_the_median_call_counts_and_the_first_ones_do_not() -> None:
    calls = []

    def call() -> None:
        calls.append(len(calls))
        time.sleep(0.2 if len(calls) < WARM_UP else 0.002)

    assert 0.002 <= median_seconds(call, 5) < 0.1
    assert len(calls) >= WARM_UP + 5


def test_several_calls_are_timed_in_turn() -> None:
    """Regression: one after the other, a step of one token was dearer than one of two."""
    calls: list[str] = []
    names = ("first", "second")
    found = medians({name: partial(calls.append, name) for name in names}, 3)
    assert found.keys() == set(names)
    assert [name for name, _ in groupby(calls)] == 4 * [*names]  # warming up is a turn too


def test_on_one_core_nothing_that_waits_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round by core seconds less its verification by the clock was below nothing."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    found = medians({"sleep": lambda: time.sleep(0.02)}, 3, clock_of(CPU))
    assert found["sleep"] < 0.01
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert medians({"sleep": lambda: time.sleep(0.02)}, 3, clock_of(CPU))["sleep"] >= 0.02


def test_calls_run_on_the_threads_that_are_set() -> None:
    before, seen = torch.get_num_threads(), []
    torch.set_num_threads(2)
    try:
        median_seconds(lambda: seen.append(torch.get_num_threads()), 2)
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {2}


def test_equal_layers_are_copies_in_memory_of_their_own() -> None:
    shape = dataclasses.replace(
        JOBS[0].shape, hidden=16, heads=4, kv_heads=2, head_dim=4, intermediate=24
    )
    generator = torch.Generator().manual_seed(0)
    made = random_decoder(shape, [1.0, 0.1, 1.0], generator, dtype=torch.float32, device=CPU)
    first, weak, again = (layer.matrices() for layer in made.layers)
    assert made.config.layers == 3
    rows = torch.eye(16)
    assert torch.equal(first[0](rows), again[0](rows))
    assert first[0] is not again[0]
    assert not torch.equal(first[0](rows), weak[0](rows))
    cache = made.cache(1, 8)
    out = made.extend(torch.randn(1, 3, 16, generator=generator), cache, torch.tensor([0]))
    assert out.shape == (1, 3, 16)
    assert out.isfinite().all()


@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_the_scale_says_how_much_a_layer_adds(scale: float) -> None:
    shape = dataclasses.replace(
        JOBS[0].shape, hidden=64, heads=4, kv_heads=2, head_dim=16, intermediate=96
    )
    generator = torch.Generator().manual_seed(0)
    made = random_decoder(shape, [scale], generator, dtype=torch.float32, device=CPU)
    output = made.layers[0].matrices()[-1]  # the last product of the layer
    spread = float(output(torch.eye(96)).std())
    assert spread == pytest.approx(scale / 96**0.5, rel=0.1)


def test_plans_are_of_far_fewer_passes_than_pairs_of_everything() -> None:
    """Before, every utterance of a run was decoded alone, and by the target alone beside it."""
    for job in JOBS:
        before = 2 * job.runs * job.utterances * job.tokens
        assert before / (job.alone + job.together) > 6.5, job.paper
        one, slower = counted(job, 10.0, 10.0), counted(job, 10.0, 20.0)
        assert one.hours == pytest.approx((job.alone + job.together) * 0.01 / 3600)
        assert one.hours < slower.hours < 2 * one.hours


def test_a_pass_of_many_rows_is_timed_too() -> None:
    shape = dataclasses.replace(
        JOBS[0].shape, hidden=16, heads=4, kv_heads=2, head_dim=4, intermediate=24
    )
    job = dataclasses.replace(JOBS[0], shape=shape, head=30)
    assert pass_seconds(job, 1, CPU, torch.float32) > 0
    assert pass_seconds(job, 4, CPU, torch.float32) > 0
