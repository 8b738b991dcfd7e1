"""The swap test: which codes are drawn again, from what, and with which randomness."""

import numpy as np
import pytest
import torch

from speculative_tts.caches import groups
from speculative_tts.runs.sources.swap import swap

N = 30


@pytest.fixture(scope="module")
def sets() -> groups.Sets:
    """Tokens 0 to 9 on a short arc (company), the others each on an axis of its own (alone)."""
    vectors = torch.zeros(N, 22)
    angle = torch.arange(10) / 20
    vectors[:10, 0], vectors[:10, 1] = angle.cos(), angle.sin()
    vectors[10:, 2:] = torch.eye(20)
    return groups.distinct_sets(groups.similar_pairs(vectors, 0.99), 0.99, N)


def arrays(sets: groups.Sets) -> dict[str, np.ndarray]:
    names = {"group_offsets": sets.offsets, "group_tokens": sets.tokens, "own": sets.own}
    return {name: tensor.numpy() for name, tensor in names.items()}


def test_own_group_of_a_token_holds_all_that_are_near_it(sets: groups.Sets) -> None:
    parts = torch.tensor_split(sets.tokens, sets.offsets[1:-1].long())
    found = [part.tolist() for part in parts]
    own = [found[k] for k in sets.own]
    assert own[5] == [3, 4, 5, 6, 7]  # cos 0.1 > 0.99 > cos 0.15
    assert own[0] == [0, 1, 2]
    assert all(own[t] == [t] for t in range(10, N))


def test_only_tokens_with_company_are_swapped_and_uniformly_for_another_member(
    sets: groups.Sets,
) -> None:
    """A token was drawn itself with the others of its group: the paper draws an alternative."""
    codes = [5] * 6000 + [12] * 50
    done = swap(codes, arrays(sets), seed=0, id_="u")
    assert done[6000:] == [12] * 50
    counts = np.bincount(done[:6000], minlength=N)
    assert counts[5] == 0
    others = counts[[3, 4, 6, 7]]
    assert others.sum() == 6000
    # chi-square with 3 degrees of freedom: above 42 with probability 4e-9
    assert ((others - 1500) ** 2 / 1500).sum() < 42


def test_every_member_of_every_group_is_swapped_for_another(sets: groups.Sets) -> None:
    codes = list(range(10)) * 50
    done = swap(codes, arrays(sets), seed=3, id_="u")
    assert all(new != old for new, old in zip(done, codes, strict=True))


def test_the_draws_belong_to_seed_utterance_and_position(sets: groups.Sets) -> None:
    codes = list(range(10)) * 5
    one = swap(codes, arrays(sets), 0, "u")
    assert swap(codes, arrays(sets), 0, "u") == one
    assert swap(codes[:20], arrays(sets), 0, "u") == one[:20]
    assert swap(codes, arrays(sets), 1, "u") != one
    assert swap(codes, arrays(sets), 0, "v") != one
    assert swap([], arrays(sets), 0, "u") == []
