"""A recurrent layer that drafts, verified: the law without sampling noise, its native rounds."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from decoders import HIDDEN, STOPS, build, requests, state
from group_laws import random_cover
from head_stubs import Embedded, Mixing, by_layer, layer_tensors
from partition import induced_law
from reference import autoregressive_law
from stubs import ragged, request
from test_enumeration import distance
from torch import Tensor

from speculative_tts.assets import resolve
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.newest import NewestStates
from speculative_tts.decoding.drafters.recurrent import RecurrentDrafter, RecurrentDrafting
from speculative_tts.decoding.loops.graphs import EAGER
from speculative_tts.decoding.loops.one_by_one import autoregressive
from speculative_tts.decoding.loops.speculation import Rounds, Speculation
from speculative_tts.decoding.outcome import Outcome
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.rules.block import BlockRule
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.families.registry import load_layout
from speculative_tts.models.recurrent import (
    RecurrentLayer,
    load_layer,
    read_layer,
    save_layer,
)
from speculative_tts.native import library
from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.schema.decode import Kernels

SMALL, ENDS = 5, (4,)
ONE = request(minimum=1, maximum=4)


TARGET = Embedded.random(SMALL, 0, scale=0.8, dtype=torch.float64).without(0)


def decode(
    rule: AcceptanceRule, rows: list[Request], sampler: Sampler | None = None
) -> list[Outcome]:
    return by_layer(TARGET, rule, ENDS, sampler or Sampler(), 2, rows)


def law_of(sampler: Sampler) -> float:
    """How far the exact rule's law over these drafts is from the target's."""
    law = induced_law(lambda rule, rows: decode(rule, rows, sampler), ONE, lookahead=2)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    return distance(law, autoregressive_law(TARGET, sampler, ENDS, ONE))


@pytest.mark.parametrize(
    "sampler", [Sampler(), Sampler(0.8, 4, 0.9), RepetitionAware(window=2, tau=0.5)]
)
def test_the_exact_rule_gives_the_targets_law(sampler: Sampler) -> None:
    """To 1e-12."""
    assert law_of(sampler) < 1e-12


def test_drafts_of_the_frequent_tokens_alone_are_as_exact() -> None:
    """FR-Spec: what is never drafted comes as a residual."""
    whole, thin = Mixing(SMALL), Mixing(SMALL)
    few = torch.tensor([0.0, -torch.inf, 0.0, -torch.inf, 0.0], dtype=torch.float64)
    thin.logits = lambda states: states + few  # type: ignore[method-assign]

    def law(layer: Mixing) -> float:
        drafter = RecurrentDrafter(TARGET, layer)  # type: ignore[arg-type]

        def spoken(rule: AcceptanceRule, rows: list[Request]) -> list[Outcome]:
            return Speculation(TARGET, drafter, rule, Sampler(), ENDS, 2).decode(rows)

        return distance(
            induced_law(spoken, ONE, lookahead=2), autoregressive_law(TARGET, Sampler(), ENDS, ONE)
        )

    assert law(whole) < 1e-12
    assert law(thin) < 1e-12


def test_a_law_that_is_not_the_tokens_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: drawn from the law, reported as half of it and half of anything."""
    honest = RecurrentDrafting.propose

    def unsure(*given: object) -> tuple[Tensor, Tensor]:
        drafted, laws = honest(*given)  # type: ignore[arg-type]
        return drafted, 0.5 * laws + 0.5 / SMALL

    monkeypatch.setattr(RecurrentDrafting, "propose", unsure)
    assert law_of(Sampler()) > 1e-3


def test_a_batch_is_its_rows_and_greedy_output_the_targets() -> None:
    rows = ragged(12, vocab=SMALL)
    for rule in (Tolerance(0.0), Tolerance(0.3), random_cover(SMALL, 3).rule()):
        together = decode(rule, rows)
        assert together == [decode(rule, [row])[0] for row in rows]
        assert sum(out.counts.accepted for out in together) > 5
    greedy = Sampler(temperature=0.0)
    alone = autoregressive(TARGET, ENDS, greedy, rows)
    found = decode(Tolerance(0.0), rows, greedy)
    assert [out.tokens for out in found] == [out.tokens for out in alone]


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


@pytest.fixture
def by() -> Iterator[Callable[[Kernels], None]]:
    """Chooses kernels for a test."""
    yield library.select
    library.select(Kernels.auto)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8])
@pytest.mark.parametrize(
    "kernels", [pytest.param(Kernels.auto, marks=pytest.mark.native), Kernels.torch]
)
def test_layer_and_head_draft_in_a_format_of_their_own(
    kernels: Kernels, dtype: torch.dtype, by: Callable[[Kernels], None]
) -> None:
    """Laws near those of float32, and float32, of fewer bytes, the head's as well.

    torch has no products of 8 bits: there it is the layer as it was.
    """
    by(kernels)
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


@pytest.mark.native
@pytest.mark.parametrize("sampler", [Sampler(0.9, 12, 0.9), RepetitionAware(1.0, 10, 0.8)])
@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize(
    ("lookahead", "dtype", "few", "blocks"),
    [
        (1, torch.float32, None, 1),
        (3, torch.float32, None, 3),
        (3, torch.bfloat16, None, 2),
        (3, torch.int8, None, 2),
        (3, torch.bfloat16, 13, 1),
    ],
)
def test_native_rounds_are_those_in_python(
    sampler: Sampler, count: int, lookahead: int, dtype: torch.dtype, few: int | None, blocks: int
) -> None:
    """All of an outcome, bit for bit; ragged rows, minima and limits."""
    target = build(state(3))
    ids = None if few is None else 3 * torch.arange(few)
    layer = RecurrentLayer(layer_tensors(HIDDEN, blocks=blocks), target.head, dtype, ids)

    def spoken(rule: AcceptanceRule) -> list[Outcome]:
        drafter = RecurrentDrafter(target, layer)
        return Speculation(target, drafter, rule, sampler, STOPS, lookahead).decode(requests(count))

    def never(*_: object) -> None:
        raise AssertionError("not asked for")

    def told(name: str, instead: Callable[..., None], rule: AcceptanceRule) -> list[Outcome]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Rounds, name, instead)
            return spoken(rule)

    accepted = 0
    for rule in (Tolerance(0.0), Tolerance(0.3), BlockRule()):
        ours = told("_round", never, rule)
        assert ours == told("_natively", lambda _: None, rule)
        accepted += sum(out.counts.accepted for out in ours)
    assert accepted > 0


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
