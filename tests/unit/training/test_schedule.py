"""Learning rates by step."""

import pytest

from speculative_tts.training.schedule import cosine, eden, eden_steps
from speculative_tts_makers.training.learning import trapezoid


def test_cosine_warms_up_and_ends_at_zero() -> None:
    rate = cosine(warmup=2)
    rates = [rate(0.01, step, 6) for step in range(7)]
    assert rates[0] == pytest.approx(0.005)
    assert max(rates) == 0.01 == rates[1]
    assert rates[-1] == pytest.approx(0)


def test_trapezoid_warms_up_holds_and_decays() -> None:
    rate = trapezoid(warmup=4, decay=10)
    rates = [rate(1.0, step, 40) for step in range(40)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert set(rates[4:31]) == {1.0}
    assert rates[-1] == pytest.approx(0.1)
    assert trapezoid(warmup=0, decay=0)(2.0, 39, 40) == 2.0  # neither rise nor fall


def test_edens_epochs_are_whole_ones() -> None:
    """Ten batches an epoch, three a step: step 10 has seen three epochs (by floats, two)."""
    rate = eden_steps(warmup=0, processes=3, epoch=10)
    assert rate(0.05, 10, 99) == eden(0.05, batch=10, epoch=3, warmup=0)
    assert eden_steps(warmup=0)(0.05, 10, 99) == eden(0.05, batch=10, epoch=0, warmup=0)


def test_eden_counts_a_processs_batches_as_its_recipe_does() -> None:
    """Not steps: with four batches a step the warm-up of 200 is over after 50."""
    rate = eden_steps(warmup=200, accumulate=4, processes=2, epoch=80)
    assert rate(0.05, 25, 99) == eden(0.05, batch=100, epoch=2, warmup=200)
    by_hand = 0.05 * (1 + (200 / 5000) ** 2) ** -0.25 * (1 + (5 / 4) ** 2) ** -0.25
    assert rate(0.05, 50, 99) == pytest.approx(by_hand)
