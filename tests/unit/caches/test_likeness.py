"""The check of embeddings against the codebook, on vectors whose answer is known."""

import torch

from speculative_tts.caches.likeness import likeness


def test_vectors_in_the_codebooks_order_agree_and_random_ones_do_not() -> None:
    random = torch.Generator().manual_seed(1)
    codebook = torch.nn.functional.normalize(torch.randn(300, 8, generator=random))
    same = likeness(codebook, codebook)  # on a sphere, cosine falls with distance
    assert same["spearman"] > 0.999
    assert same["overlap"] > 0.999
    assert same["percentile"] < 9  # mean of the first 50 of 299
    other = torch.nn.functional.normalize(torch.randn(300, 8, generator=random))
    chance = likeness(other, codebook)
    assert abs(chance["spearman"]) < 0.05
    assert abs(chance["percentile"] - 50) < 3
    assert abs(chance["overlap"] - 50 / 299) < 0.03


def test_ranks_do_not_care_how_large_a_distance_is() -> None:
    """Chords of an arc rise with the distance on it, and are not proportional to it."""
    random = torch.Generator().manual_seed(2)
    place = torch.rand(40, 1, generator=random) * 3
    arc = torch.cat([place.cos(), place.sin()], 1)
    unit = torch.nn.functional.normalize(torch.randn(40, 8, generator=random) + 2 * place)
    assert likeness(unit, arc) == likeness(unit, place)
    assert likeness(arc, place)["spearman"] == 1
    assert likeness(unit, place.exp()) != likeness(unit, place)  # another order


def test_two_tokens_have_no_order() -> None:
    assert likeness(torch.eye(2), torch.eye(2))["spearman"] is None
