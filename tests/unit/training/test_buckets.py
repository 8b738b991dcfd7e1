"""Batches of bounded length: the bound, each utterance once an epoch, little padding."""

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from speculative_tts.training.data.buckets import STEP, Buckets

LENGTHS = st.lists(st.integers(0, 900), min_size=1, max_size=80)


@given(lengths=LENGTHS, frames=st.integers(1, 2000), seed=st.integers(0, 9))
@examples(200)
def test_no_batch_is_beyond_the_bound(lengths: list[int], frames: int, seed: int) -> None:
    fits = [i for i, length in enumerate(lengths) if 1 <= length <= frames]
    if not fits:
        with pytest.raises(ValueError, match=r"none of .*; raise joint.frames"):
            Buckets(np.array(lengths), frames=frames)
        return
    buckets = Buckets(np.array(lengths), frames=frames, seed=seed)
    for epoch in range(3):
        batches = [buckets[epoch * len(buckets) + place] for place in range(len(buckets))]
        assert sorted(member for batch in batches for member in batch) == fits
        for batch in batches:
            assert len(batch) * max(lengths[member] for member in batch) <= frames
    assert buckets.left_out == len(lengths) - len(fits)


def test_epochs_are_drawn_anew_and_come_back() -> None:
    lengths = np.random.default_rng(0).integers(50, 700, 2000)
    one, again = (Buckets(lengths, frames=4000, seed=5) for _ in range(2))
    size = len(one)
    epochs = [[one[epoch * size + place] for place in range(size)] for epoch in range(2)]
    assert epochs[0] != epochs[1]
    assert [again[size + place] for place in range(size)] == epochs[1]
    assert Buckets(lengths, frames=4000, seed=6)[0] != one[0]
    padded = sum(len(batch) * lengths[batch].max() for batch in epochs[0])
    assert padded < 1.1 * lengths.sum()  # one batch after another as they come: 1.8 times
    assert padded > size * (4000 - 700 - 10 * STEP)  # batches are full


def test_what_is_too_short_or_too_long_is_left_out_and_counted() -> None:
    buckets = Buckets(np.array([5, 30, 90, 200, 400]), frames=300, shortest=10, longest=100)
    assert sorted(m for place in range(len(buckets)) for m in buckets[place]) == [1, 2]
    assert buckets.left_out == 3
