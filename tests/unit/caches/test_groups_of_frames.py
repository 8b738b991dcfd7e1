"""Groups and neighbours of codes in frames: none crosses a slot, and each slot has its theta."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from speculative_tts.caches.provide import Sources, acoustic_groups
from speculative_tts.caches.vectors import nearest
from speculative_tts.models.families.row_layout import RowLayout
from speculative_tts.schema.common import GroupsConfig, RowsConfig, Similarity
from speculative_tts.typed import read_json, typed

GOLDEN = Path(__file__).parents[2] / "golden" / "rows"
ABOUT = read_json(GOLDEN / "orpheus" / "golden.json")
ROWS = typed(RowsConfig, ABOUT["rows"], "golden.json")


def sources(rows: RowsConfig = ROWS) -> Sources:
    model = GOLDEN / "orpheus" / "model"
    return Sources(model, ("snac", GOLDEN / "snac"), torch.device("cpu"), rows)


@pytest.mark.parametrize("source", [Similarity.embedding, Similarity.codebook])
def test_a_group_never_crosses_slots(source: Similarity, tmp_path: Path) -> None:
    """And the mean size is that of each slot: thetas differ."""
    config = GroupsConfig(source=source, mean_size=4.0, cache=str(tmp_path))
    made = acoustic_groups(config, sources())
    offsets, tokens = made.arrays["group_offsets"], made.arrays["group_tokens"]
    slots = [set(group // 16) for group in np.split(tokens, offsets[1:-1])]
    assert all(len(slot) == 1 for slot in slots)
    sizes = np.diff(offsets)
    assert made.facts["mean_size"] == pytest.approx(4 * 112 / 113 + 1 / 113, rel=0.2)
    of_slot = np.array([min(slot) for slot in slots])
    for slot in range(7):
        assert sizes[of_slot == slot].mean() == pytest.approx(4, rel=0.25)
    assert len(made.facts["thetas"]) == 7
    if source is Similarity.embedding:
        assert len(set(made.facts["thetas"])) == 7
    assert made.facts["theta"] == pytest.approx(np.mean(made.facts["thetas"]))
    assert made.facts["likeness"]["tokens"] == 16
    assert tokens[-1] == 112  # the end of speech, alone


def test_without_frames_the_same_codes_group_across(tmp_path: Path) -> None:
    """A control, and another cache: what is stored for frames is not taken for it."""
    config = GroupsConfig(mean_size=4.0, cache=str(tmp_path))
    acoustic_groups(config, sources())
    free = acoustic_groups(config, sources(replace(ROWS, slots=1)))
    groups = np.split(free.arrays["group_tokens"], free.arrays["group_offsets"][1:-1])
    assert any(len(set(group // 16)) > 1 for group in groups)
    assert "thetas" not in free.facts


def test_a_given_theta_is_of_every_slot(tmp_path: Path) -> None:
    made = acoustic_groups(GroupsConfig(theta=0.1, cache=str(tmp_path)), sources())
    assert made.facts["thetas"] == [0.1] * 7
    layout = RowLayout.read(GOLDEN / "orpheus" / "model", ROWS)
    assert layout.slots is not None
    own = made.arrays["own"]
    first = made.arrays["group_tokens"][made.arrays["group_offsets"][own[20]] :][:3]
    assert all(one in layout.slots.ranges[1] for one in first)


def test_a_group_is_no_larger_than_a_slot(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"mean_size 20\.0 is outside \[1, 16\], the number of c"):
        acoustic_groups(GroupsConfig(mean_size=20.0, cache=str(tmp_path)), sources())


def test_codes_that_sound_in_frames_have_no_sound_of_their_own(tmp_path: Path) -> None:
    config = GroupsConfig(source=Similarity.mel, mean_size=4.0, cache=str(tmp_path))
    with pytest.raises(ValueError, match="source=mel needs codes that are heard one by one, and"):
        acoustic_groups(config, sources())


def test_neighbours_are_of_the_same_slot() -> None:
    """Codes whose nearest lies in another slot; the end has none."""
    vectors = torch.tensor([[0.0], [10.0], [0.1], [10.1], [10.25], [torch.nan]])
    free = nearest(vectors, 1)
    assert free[:, 0].tolist() == [2, 3, 0, 1, 3, 5]
    own = nearest(vectors, 2, (range(2), range(2, 5)))
    assert own.tolist() == [[1, 0], [0, 1], [3, 4], [4, 2], [3, 2], [5, 5]]
