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
    codebook = torch.arange(40.0)[:, None]
    angle = codebook / 40
    unit = torch.cat([angle.cos(), angle.sin()], 1)
    assert likeness(unit, codebook)["spearman"] > 0.99
    assert likeness(unit, codebook**3)["percentile"] is not None


def test_two_tokens_have_no_order() -> None:
    assert likeness(torch.eye(2), torch.eye(2))["spearman"] is None
