"""A grown target is the same function; finer codes begin where their coarse ones were."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from small_target import LAYOUT, WORDS, save_target
from torch import Tensor
from transformers import PreTrainedModel

from speculative_tts.codecs.tiny import TOKEN_FEATURES, TinyCodec
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.training.checkpoint import build_model
from speculative_tts_makers.training.grow import deepen, grow_target, refine

COARSE = TinyCodec(
    np.random.default_rng(0).normal(size=(LAYOUT.n_codes, TOKEN_FEATURES)).astype(np.float32),
    np.ones(27, np.float32),
)


@pytest.fixture
def target(tmp_path: Path) -> tuple[Path, PreTrainedModel]:
    folder = tmp_path / "target"
    return folder, save_target(folder)


def rebuilt(folder: Path, tensors: dict[str, Tensor], **changed: object) -> PreTrainedModel:
    config = json.loads((folder / "config.json").read_text())
    config.pop("layer_types", None)
    return build_model(config | changed, tensors, torch.float32)


def logits(model: PreTrainedModel, ids: Tensor) -> Tensor:
    with torch.no_grad():
        found: Tensor = model(input_ids=ids).logits
    return found


@pytest.mark.parametrize("layers", [4, 5, 8, 11])
def test_a_deeper_target_is_the_same_function(
    target: tuple[Path, PreTrainedModel], layers: int
) -> None:
    folder, model = target
    ids = torch.arange(40)[None] % LAYOUT.vocab_size
    tensors = grow_target(folder, COARSE, COARSE, LAYOUT, layers)
    deeper = rebuilt(folder, tensors, num_hidden_layers=layers)
    assert torch.equal(logits(deeper, ids), logits(model, ids))


def test_inserted_layers_can_learn(target: tuple[Path, PreTrainedModel]) -> None:
    """Only what a layer adds is zero; its gradient is not."""
    folder, _ = target
    tensors = grow_target(folder, COARSE, COARSE, LAYOUT, 8)
    deeper = rebuilt(folder, tensors, num_hidden_layers=8)
    deeper(input_ids=torch.arange(9)[None]).logits.square().sum().backward()
    inserted = [n for n, p in deeper.named_parameters() if p.ndim == 2 and not p.any()]
    assert len(inserted) == 2 * 4
    assert all(dict(deeper.named_parameters())[name].grad.any() for name in inserted)


def test_the_same_codes_in_another_order_are_the_same_target(
    target: tuple[Path, PreTrainedModel],
) -> None:
    """And with other feature weights, which scale a codebook and mean the same speech."""
    folder, model = target
    order = np.random.default_rng(1).permutation(LAYOUT.n_codes)
    scale = np.linspace(0.5, 2, 27).astype(np.float32)
    other = TinyCodec(COARSE.codebook[order] * np.tile(scale, 4), scale)
    moved = rebuilt(folder, grow_target(folder, COARSE, other, LAYOUT, 4))
    places = torch.cat([torch.from_numpy(order), torch.arange(len(order), LAYOUT.vocab_size)])
    ids = torch.arange(LAYOUT.vocab_size)[None]
    expected = logits(model, places[ids])[..., places]
    torch.testing.assert_close(logits(moved, ids), expected, atol=1e-4, rtol=1e-4)


def test_finer_codes_follow_their_parent_and_the_geometry() -> None:
    """Rows that are a linear map of the codebook are that map of a finer one, but for the ridge."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.randn(200, 6, generator=generator).double()
    slope = torch.randn(6, 3, generator=generator).double()
    fine = coarse.repeat(4, 1) + 0.1 * torch.randn(800, 6, generator=generator)
    refined = refine(coarse @ slope + 5, coarse, fine)
    left = (refined - (fine @ slope + 5)).norm() / (fine @ slope).norm()
    parents_alone = (coarse.repeat(4, 1) - fine) @ slope
    assert left < 0.1 * parents_alone.norm() / (fine @ slope).norm()


@pytest.mark.parametrize(
    ("layout", "layers", "message"),
    [
        (SpeechLayout.merged(30, ("zulu",)), 4, "speaks 24 codes and 3 words, the corpus has 24"),
        (SpeechLayout.merged(30, WORDS), 3, "layers 3 are fewer than the 4 of init; give more"),
    ],
)
def test_what_cannot_grow_is_told(
    target: tuple[Path, PreTrainedModel], layout: SpeechLayout, layers: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        grow_target(target[0], COARSE, COARSE, layout, layers)


def test_what_is_not_a_layer_is_kept() -> None:
    tensors = {
        "model.norm.weight": torch.ones(2),
        "model.layers.0.mlp.up_proj.weight": torch.eye(2),
    }
    assert set(deepen(tensors, 1, 2)) == {*tensors, "model.layers.1.mlp.up_proj.weight"}
