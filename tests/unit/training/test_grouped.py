"""losses.group: the groups it needs, and a draft that PCG's rule accepts more often by it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from group_laws import Cover
from small_target import LAYOUT

from speculative_tts.caches.store import save_entry
from speculative_tts.schema.common import CheckpointConfig, Device
from speculative_tts.schema.train import LossConfig, TrainDraftConfig
from speculative_tts.training.devices import accelerator_for
from speculative_tts.training.draft import make_draft
from speculative_tts.training.grouped import group_distributions

IDS = LAYOUT.speech_vocab_size
COVER = Cover(IDS, (*((t, t + 1) for t in range(0, 24, 2)), (24,)), (1.0,) * 13)


def save_groups(root: Path, ids: int = IDS) -> str:
    """A cache folder of them, as sst-precompute writes it."""
    kept = COVER.rule().memberships
    names = ("token_offsets", "token_groups", "group_offsets", "group_tokens")
    arrays = {name: kept[name].numpy() for name in names} | {"scores": np.ones(13, np.float32)}
    return str(save_entry(root, "groups", {"vocabulary": [24, ids, [24]]}, arrays, {}))


def test_laws_by_definition_and_their_gradient(tmp_path: Path) -> None:
    law = torch.rand(2, IDS, dtype=torch.float64).softmax(-1).requires_grad_()
    coarse = group_distributions(save_groups(tmp_path), LAYOUT, torch.device("cpu"))
    torch.testing.assert_close(coarse(law), law @ COVER.weights().T)
    assert torch.autograd.gradcheck(coarse, law)


def test_groups_of_another_vocabulary_are_told(tmp_path: Path) -> None:
    said = r"of a vocabulary \[24, 30, \[24\]\] .*, the target's is \[24, 25, \[24\]\]; make its"
    with pytest.raises(ValueError, match=said):
        group_distributions(save_groups(tmp_path, 30), LAYOUT, torch.device("cpu"))


def test_a_draft_learns_by_groups(tmp_path: Path, target: Path, codes: Path) -> None:
    config = TrainDraftConfig(
        target=CheckpointConfig("small", str(target)),
        codes=str(codes),
        out=str(tmp_path / "draft"),
        layers=[0, 3],
        losses=LossConfig(ce=0.0, group=1.0),
        groups=save_groups(tmp_path),
        steps=20,
        batch_size=4,
        warmup=2,
        learning_rate=1e-2,
        eval_every=20,
    )
    inherited = make_draft(
        TrainDraftConfig(**{**vars(config), "steps": 0, "out": str(tmp_path / "inherited")}),
        accelerator_for(Device.cpu),
    )
    trained = make_draft(config, accelerator_for(Device.cpu))
    assert trained["dev_loss"] < inherited["dev_loss"] - 0.02
