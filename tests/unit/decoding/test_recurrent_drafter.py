"""A recurrent layer that drafts: what it reads, computes and is kept as."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from computing import computing
from decoders import HIDDEN, build, state
from head_stubs import Embedded, Mixing, layer_tensors
from stubs import request
from torch import Tensor

from speculative_tts.assets import resolve
from speculative_tts.decoding.drafters.newest import NewestStates
from speculative_tts.decoding.drafters.recurrent import RecurrentDrafter
from speculative_tts.decoding.loops.graphs import EAGER
from speculative_tts.decoding.loops.speculation import Speculation
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.families.registry import load_layout
from speculative_tts.models.recurrent import (
    RecurrentLayer,
    load_layer,
    read_layer,
    save_layer,
)
from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.schema.decode import Kernels

SMALL = 5
TARGET = Embedded.random(SMALL, 0, scale=0.8, dtype=torch.float64).without(0)


def test_each_step_reads_its_own_state_and_the_token_before() -> None:
    """The first of a round the target's state that the newest token was drawn from."""
    seen: list[tuple[Tensor, int, Tensor]] = []

    class Recording(Mixing):
        def __call__(self, states: Tensor, inputs: Tensor) -> Tensor:
            out = super().__call__(states, inputs)
            seen.append((states.clone(), int(inputs.argmax()), out))
            return out

    drafter = RecurrentDrafter(TARGET, Recording(SMALL))  # type: ignore[arg-type]
    made = Speculation(TARGET, drafter, Tolerance(0.0), Sampler(), (), 2)
    later, said = 0, [0, 1]
    for loop in EAGER.states(made.looping(), [request(maximum=12)]):
        for (_, _, behind), (own, _, _) in pairwise(seen):
            assert torch.equal(own, behind)
            later += 1
        if seen:  # of the round that is over: it began behind what was said before it
            first, token, _ = seen[0]
            assert torch.equal(first[0], TARGET.table[said[-3], said[-2]])
            assert token == said[-1]
            seen.clear()
        said = [0, 1, *loop.rows.tokens[0, : int(loop.rows.count)].tolist()]
    assert later > 2


def test_the_newest_states_stay_where_they_are() -> None:
    """Those behind what was accepted; a row writes into its batch."""
    kept = NewestStates(None)
    hidden = torch.arange(9.0).view(3, 3, 1)
    kept.observe(hidden, torch.tensor([2, 0, 1]))
    whole = kept.hidden
    assert whole is not None
    assert whole.tolist() == [[2], [3], [7]]
    kept.observe(hidden, torch.tensor([1, 1, 2]))
    assert kept.hidden is whole
    row = kept.row(1)
    row.observe(hidden[1:2], torch.tensor([2]))
    assert whole.tolist() == [[1], [5], [8]]
    row.observe(hidden[2:], torch.tensor([0]))
    assert whole.tolist() == [[1], [6], [8]]


def test_the_layer_is_its_formula() -> None:
    t, (states, inputs) = layer_tensors(HIDDEN), torch.randn(2, 3, HIDDEN)
    head = build(state(3)).head
    layer = RecurrentLayer(t, head, torch.float32)
    expected = states
    for block in t.blocks:
        inner = torch.cat([expected, inputs], 1) @ block.inner.T + block.inner_bias
        expected = expected + torch.nn.functional.silu(inner) @ block.out.T + block.out_bias
    torch.testing.assert_close(layer(states, inputs), expected, rtol=1e-4, atol=1e-5)
    first = RecurrentLayer(replace(t, blocks=t.blocks[:1]), head, torch.float32)
    assert not torch.allclose(first(states, inputs), expected, atol=0.1)
    assert torch.equal(layer.logits(states), head(states))
    few = torch.tensor([1, 4, 39])
    thin = RecurrentLayer(t, head, torch.float32, few)
    expected = torch.full_like(layer.logits(states), -torch.inf)
    expected[:, few] = layer.logits(states)[:, few]
    torch.testing.assert_close(thin.logits(states), expected)
    assert layer.nbytes - thin.nbytes == head.nbytes * (1 - 3 / head.shape[1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8])
@pytest.mark.parametrize(
    "kernels", [pytest.param(Kernels.auto, marks=pytest.mark.native), Kernels.torch]
)
def test_layer_and_head_draft_in_a_format_of_their_own(
    kernels: Kernels, dtype: torch.dtype
) -> None:
    """Laws near those of float32, and float32, of fewer bytes, the head's as well.

    torch has no products of 8 bits: there it is the layer as it was.
    """
    with computing(kernels):
        target, stored = build(state(3)), layer_tensors(HIDDEN)
        whole, small = (RecurrentLayer(stored, target.head, d) for d in (torch.float32, dtype))
    biases = sum(len(block.inner_bias) + HIDDEN for block in stored.blocks)
    weights, scales = whole.nbytes // 4 - biases, biases + target.head.shape[1]
    alike = dtype is torch.int8 and kernels is Kernels.torch
    if dtype is torch.bfloat16:
        assert small.nbytes == 2 * (weights + biases)
    else:
        assert small.nbytes == (whole.nbytes if alike else weights + 4 * (biases + scales))
    states, inputs = torch.randn(2, 3, HIDDEN, generator=torch.Generator().manual_seed(0))
    for given in (states, states.bfloat16()):
        found, expected = (one.logits(one(given, inputs)) for one in (small, whole))
        assert found.dtype is torch.float32
        apart = (found.softmax(-1) - expected.softmax(-1)).abs().sum(-1).max()
        assert apart == 0 if alike else 0 < apart < 0.05


def test_a_folder_is_its_tensors_and_belongs_to_a_target(tmp_path: Path) -> None:
    for name in ("target", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(name.encode())
    stored, head = layer_tensors(HIDDEN), build(state(3)).head
    options = {"head": head, "dtype": torch.float32, "device": torch.device("cpu")}
    save_layer(tmp_path / "layer", stored, target=tmp_path / "target")
    found, description = read_layer(tmp_path / "layer")
    parts = [[part for block in one.blocks for part in block] for one in (found, stored)]
    for mine, other in zip(*parts, strict=True):
        largest = other.abs().amax(-1, keepdim=True) if other.ndim > 1 else 0 * other
        assert ((mine - other).abs() <= largest / 127).all()
    assert [description[size] for size in ("hidden", "width", "blocks")] == [HIDDEN, 48, 2]
    layer = load_layer(tmp_path / "layer", target=tmp_path / "target", **options)
    assert layer.nbytes == head.nbytes + sum(part.nbytes for part in parts[1])
    with pytest.raises(ValueError, match=r"does not say which codes are frequent; leave drafter"):
        load_layer(tmp_path / "layer", target=tmp_path / "target", codes=2, **options)
    counted = replace(stored, frequent=torch.tensor([7, 2, 30]))
    save_layer(tmp_path / "layer", counted, target=tmp_path / "target")
    thin = load_layer(tmp_path / "layer", target=tmp_path / "target", codes=2, **options)
    said = thin.logits(torch.zeros(1, HIDDEN)).isfinite().nonzero()[:, 1]
    assert said.tolist() == [2, 7]
    with pytest.raises(ValueError, match=r"drafter.codes 4 is above the 3 ids of .*; leave it"):
        load_layer(tmp_path / "layer", target=tmp_path / "target", codes=4, **options)
    with pytest.raises(ValueError, match=r"drafts for another target .*; train its own with"):
        load_layer(tmp_path / "layer", target=tmp_path / "other", **options)
    (tmp_path / "layer/recurrent.safetensors").write_bytes(b"torn")
    with pytest.raises(ValueError, match=r"is not readable .*; make it again"):
        read_layer(tmp_path / "layer")
    with pytest.raises(ValueError, match="sst-train-heads kind=recurrent"):
        read_layer(tmp_path / "other")


@pytest.mark.parametrize("name", ["target", "target_fine"])
def test_layers_that_ship_know_which_codes_are_frequent(name: str) -> None:
    """An order of all speech ids; the end comes once an utterance, before any code."""
    tensors, _ = read_layer(resolve(f"tiny:{name}_recurrent"))
    layout = load_layout(CheckpointConfig(path=str(resolve(f"tiny:{name}"))))
    assert tensors.frequent is not None
    assert sorted(tensors.frequent.tolist()) == list(range(layout.width(text_rows=False)))
    assert tensors.frequent[0] in layout.stop_ids
