"""Learning rates by step."""

import pytest

from speculative_tts.training.schedule import cosine, eden, eden_steps, trapezoid


def test_cosine_warms_up_and_ends_at_zero() -> None:
    rate = cosine(steps=6, warmup=2)
    rates = [rate(0.01, step) for step in range(7)]
    assert rates[0] == pytest.approx(0.005)
    assert max(rates) == 0.01 == rates[1]
    assert rates[-1] == pytest.approx(0)


def test_trapezoid_warms_up_holds_and_decays() -> None:
    rate = trapezoid(steps=40, warmup=4, decay=10)
    rates = [rate(1.0, step) for step in range(40)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert set(rates[4:31]) == {1.0}
    assert rates[-1] == pytest.approx(0.1)
    assert trapezoid(steps=40, warmup=0, decay=0)(2.0, 39) == 2.0  # neither rise nor fall


def test_edens_epochs_are_whole_ones() -> None:
    """Ten sequences in batches of three: step 10 has seen three epochs (by floats, two)."""
    rate = eden_steps(warmup=0, batch_size=3, sequences=10)
    assert rate(0.05, 10) == eden(0.05, batch=10, epoch=3, warmup=0)
    without = eden_steps(warmup=0, batch_size=3, sequences=None)
    assert without(0.05, 10) == eden(0.05, batch=10, epoch=0, warmup=0)
