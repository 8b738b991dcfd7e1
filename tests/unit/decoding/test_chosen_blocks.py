"""Blocks of tokens chosen of what heads say: each alone, or the best and drawn paths."""

import pytest
import torch

from speculative_tts.decoding.batch import BatchState, Request
from speculative_tts.decoding.blocks.choosers import IndependentHeads, ViterbiHeads
from speculative_tts.decoding.blocks.transitions import DenseTransitions
from speculative_tts.decoding.blocks.viterbi import PathSearch
from speculative_tts.decoding.sampling.penalty import RepetitionPenalty
from speculative_tts.decoding.sampling.repetition_aware import RepetitionAware
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule

pytestmark = pytest.mark.usefixtures("kernels")
CPU = torch.device("cpu")


def row(stops: tuple[int, ...] = (7,), slack: int = 3, id_: str = "a", seed: int = 0) -> BatchState:
    """A row without tokens, of eight ids."""
    return BatchState.of([Request(id_, torch.zeros(1, 1), None, 0, 9, seed)], stops, 8, slack=slack)


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        (RepetitionPenalty(temperature=0, penalty=2.0), [5, 4, 0]),
        (RepetitionAware(top_k=1, window=4, tau=0.25), [5, 4, 4]),
    ],
)
def test_samplers_that_look_back_see_the_block(sampler: Sampler, expected: list[int]) -> None:
    """Head i's history once had zeros where the block's first i tokens belong."""
    logits = torch.zeros(8)
    logits[[5, 4, 0]] = torch.tensor([1000.0, 900.0, 800.0])
    assert IndependentHeads(sampler)(logits.expand(1, 3, -1), row()).tokens.tolist() == [expected]


@pytest.mark.parametrize("sample", [True, False])
def test_a_block_ends_with_the_likeliest_stop_id(sample: bool) -> None:
    """Not with the first one."""
    logits = torch.zeros(1, 2, 8)
    logits[..., 6], logits[..., 7], logits[..., 5] = 50.0, 40.0, 45.0
    search = PathSearch(DenseTransitions(torch.zeros(8, 8), size=5), 3)
    stop = StopRule.build((5, 6, 7), 8, [0], CPU)
    choose = ViterbiHeads(search, stop, temperature=1.0, sample=sample)
    assert choose(logits, row((5, 6, 7), 2), torch.tensor([0])).tokens.tolist() == [[6, 6]]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"end_when_likeliest": True}, {(1, 7, 7)}),
        ({"end_when_likeliest": False}, {(1, 7, 7), (1, 2, 3)}),
        ({}, {(1, 7, 7), (1, 2, 3)}),
    ],
)
def test_a_sampled_path_ends_where_the_end_is_likeliest(
    options: dict[str, bool], found: set[tuple[int, ...]]
) -> None:
    """The official rule; by its share of the candidates alone, 0.4, the end is drawn at times."""
    logits = torch.full((1, 3, 8), -50.0)
    for place, token in enumerate((1, 2, 3)):
        logits[0, place, token] = 0.0
    logits[0, 1:, 7], logits[0, 1:, 6] = 0.1, 0.0
    table = torch.full((8, 8), -50.0)
    table[1, 2] = table[2, 3] = 0.0
    stop = StopRule.build((7,), 8, [0], CPU)
    search = PathSearch(DenseTransitions(table, size=7), 3, union=False)
    choose = ViterbiHeads(search, stop, temperature=1.0, sample=True, **options)
    every = [row(id_="c", seed=seed) for seed in range(20)]
    blocks = [choose(logits, rows, torch.tensor([0])).tokens[0].tolist() for rows in every]
    assert set(map(tuple, blocks)) == found


@pytest.fixture
def empty() -> BatchState:
    """Of codes 0 to 6 and stop id 7."""
    return row()


@pytest.mark.parametrize("sample", [True, False])
@pytest.mark.parametrize("union", [True, False])
def test_a_first_block_begins_behind_the_prompts_last_code(
    empty: BatchState, sample: bool, union: bool
) -> None:
    """Behind code c comes c + 1 (of 6: 0), whatever the heads say; behind nothing what they say."""
    logits = torch.zeros(1, 3, 8)
    logits[0, 0, 5], logits[0, :, 7] = 10.0, -50.0
    table = torch.full((8, 8), -50.0)
    for code in range(7):
        table[code, (code + 1) % 7] = 0.0
    table[7, 2] = 0.0  # a row that no code has
    search = PathSearch(DenseTransitions(table, size=7), 7, union, boundary=True)
    choose = ViterbiHeads(search, empty.stop, temperature=1.0, sample=sample)
    for before in (-1, *range(7)):
        first = 5 if before < 0 else (before + 1) % 7
        found = choose(logits, empty, torch.tensor([before])).tokens[0].tolist()
        assert found == [first, (first + 1) % 7, (first + 2) % 7]


@pytest.mark.parametrize(("temperature", "law"), [(1.0, 16 / 17), (2.0, 4 / 5)])
def test_a_drafted_law_is_of_its_temperature(
    empty: BatchState, temperature: float, law: float
) -> None:
    """Odds of 16 to 1 between two candidates; of their roots at temperature 2."""
    logits = torch.full((1, 1, 8), -500.0)
    logits[0, 0, :2] = torch.tensor([16.0, 1.0]).log()
    search = PathSearch(DenseTransitions(torch.zeros(8, 8), size=7), 2)
    choose = ViterbiHeads(search, empty.stop, temperature=temperature, sample=True)
    assert float(choose.draft(logits, empty)[0, 0, 0]) == pytest.approx(law)


def test_behind_a_certain_end_is_the_end(empty: BatchState) -> None:
    """Also where the uniform is the smallest; what is left of the law there is 0 / 0."""
    logits = torch.zeros(1, 2, 8)
    logits[0, 0, 7] = 500.0
    search = PathSearch(DenseTransitions(torch.zeros(8, 8), size=7), 3)
    choose = ViterbiHeads(search, empty.stop, temperature=1.0, sample=True)
    assert choose.draft(logits, empty)[0].tolist() == [[0.0] * 7 + [1.0]] * 2
    empty.uniforms.zero_()
    assert choose(logits, empty, torch.tensor([0])).tokens[0, 0] == 7


def test_a_path_needs_a_temperature(empty: BatchState) -> None:
    search = PathSearch(DenseTransitions(torch.zeros(8, 8), size=7), 3)
    with pytest.raises(ValueError, match=r"^viterbi.temperature 0.0 is not above 0; 1 is plain$"):
        ViterbiHeads(search, empty.stop, temperature=0.0, sample=True)


def test_blocks_of_a_seed_are_pinned() -> None:
    """Other uniforms for the same draw pass every chi-square; see `test_loops`."""
    logits = torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(0))
    table = torch.randn(8, 8, generator=torch.Generator().manual_seed(1))
    stop = StopRule.build((7,), 8, [0], CPU)
    found = []
    for choose in (
        IndependentHeads(Sampler()),
        ViterbiHeads(
            PathSearch(DenseTransitions(table, size=7), 5), stop, temperature=1.0, sample=True
        ),
    ):
        rows = row(slack=4, id_="pinned", seed=3)
        found.append(choose(logits, rows, torch.tensor([0])).tokens[0].tolist())
    assert found == [[5, 5, 7, 5], [5, 6, 7, 5]]
