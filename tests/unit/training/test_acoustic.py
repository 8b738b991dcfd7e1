"""Embeddings pulled towards the codec's geometry."""

import pytest
import torch
from torch.nn.functional import cosine_similarity

from speculative_tts_makers.training.acoustic import AcousticPull


def pair() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(60, 5, generator=generator), torch.randn(60, 8, generator=generator)


def test_the_image_is_the_codebook_turned_scaled_and_moved() -> None:
    codebook, table = pair()
    image = AcousticPull(codebook, 1.0).image(table)
    ratios = torch.pdist(image) / torch.pdist(codebook)
    torch.testing.assert_close(ratios, ratios[:1].expand_as(ratios), rtol=1e-4, atol=0)
    centred = table - table.mean(0)
    torch.testing.assert_close((image - image.mean(0)).norm(), centred.norm())
    torch.testing.assert_close(image.mean(0), table.mean(0), atol=1e-5, rtol=0)


def test_an_image_is_its_own_image() -> None:
    codebook, table = pair()
    pull = AcousticPull(codebook, 1.0)
    image = pull.image(table)
    torch.testing.assert_close(pull.image(image), image, atol=1e-4, rtol=1e-4)


def test_the_rotation_fits_the_table() -> None:
    codebook, table = pair()
    image = AcousticPull(codebook, 1.0).image(table)
    similar = cosine_similarity((image - image.mean(0)).flatten(), table.flatten(), dim=0)
    turned = AcousticPull(codebook, 1.0).image(table.flip(0)).flatten()
    assert similar > cosine_similarity(turned, table.flatten(), dim=0)


def test_a_share_moves_part_of_the_way_and_zero_nothing() -> None:
    codebook, table = pair()
    free = table.clone()
    AcousticPull(codebook, 0.0)(free)
    assert torch.equal(free, table)
    half = table.clone()
    pull = AcousticPull(codebook, 0.5)
    pull(half)
    torch.testing.assert_close(half, (table + pull.image(table)) / 2)


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_refuses_a_share_outside_0_to_1(share: float) -> None:
    with pytest.raises(ValueError, match=r"outside \[0, 1\]; 0 leaves embeddings free"):
        AcousticPull(pair()[0], share)
