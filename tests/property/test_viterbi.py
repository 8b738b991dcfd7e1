"""Path search against all paths, enumerated; golden cases; the laws of the sampled mode."""

import itertools
import math
from collections import Counter
from pathlib import Path

import pytest
import torch
from goodness import chi_square
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from speculative_tts.checks.viterbi import check
from speculative_tts.decoding.batch import BatchState, Request
from speculative_tts.decoding.blocks.choosers import ViterbiHeads
from speculative_tts.decoding.blocks.transitions import (
    IMPOSSIBLE,
    DenseTransitions,
    SparseTransitions,
    TransitionTable,
)
from speculative_tts.decoding.blocks.viterbi import PathSearch
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule

VOCAB = 9
GOLDEN = Path(__file__).parents[1] / "golden" / "viterbi"
seeds = st.integers(0, 2**31)
heads = st.integers(1, 5)
top_ks = st.integers(1, 3)
flags = st.booleans()


def random_problem(seed: int, n: int, batch: int = 1, *, zeros: bool) -> tuple[Tensor, Tensor]:
    """Log scores [batch, n, VOCAB] and log transitions [VOCAB, VOCAB], some impossible."""
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(batch, n, VOCAB, generator=generator, dtype=torch.float64)
    q = 2 * torch.randn(VOCAB, VOCAB, generator=generator, dtype=torch.float64)
    if zeros:
        q[torch.rand(VOCAB, VOCAB, generator=generator) < 0.3] = IMPOSSIBLE
    return scores.log_softmax(-1), q.log_softmax(-1)


def all_paths(
    scores: Tensor, q: Tensor, k: int, last: int | None, *, union: bool
) -> dict[tuple[int, ...], float]:
    """Log weight of every path of one row's lattice, by its definition."""
    own = [set(row.topk(k).indices.tolist()) for row in scores]
    sets = [set().union(*own)] * len(own) if union else own
    found = {}
    for path in itertools.product(*sets):
        weight = sum(float(scores[t, a]) for t, a in enumerate(path))
        weight += sum(float(q[a, b]) for a, b in itertools.pairwise(path))
        found[path] = weight + (0.0 if last is None else float(q[last, path[0]]))
    return found


@given(seeds, heads, top_ks, flags, flags, flags)
def test_the_best_path_is_that_of_enumeration(
    seed: int, n: int, k: int, union: bool, boundary: bool, zeros: bool
) -> None:
    scores, q = random_problem(seed, n, zeros=zeros)
    last = seed % VOCAB
    paths = all_paths(scores[0], q, k, last if boundary else None, union=union)
    best = max(paths.values())
    found = PathSearch(DenseTransitions(q), k, union, boundary).best(scores, torch.tensor([last]))
    if best == -math.inf:
        assert bool(found.dead)
        assert found.tokens[0].tolist() == scores[0].argmax(-1).tolist()
    else:
        assert not found.dead
        assert paths[tuple(found.tokens[0].tolist())] == pytest.approx(best, abs=1e-9)


@given(seeds, heads, top_ks, flags)
def test_a_dead_block_takes_each_heads_likeliest(seed: int, n: int, k: int, union: bool) -> None:
    """Nothing may follow the token before the block, so that no path is possible."""
    scores, q = random_problem(seed, n, zeros=False)
    last = torch.tensor([seed % VOCAB])
    q[last] = IMPOSSIBLE
    search, ids = PathSearch(DenseTransitions(q), k, union, boundary=True), scores.topk(k).indices
    half = torch.full((1, n), 0.5, dtype=torch.float64)
    for found in (search.best(scores, last), search.sample(scores, ids, last, half)):
        assert bool(found.dead)
        assert found.tokens[0].tolist() == scores[0].argmax(-1).tolist()


def test_a_drawn_path_may_be_improbable_at_first() -> None:
    """State 1 has 1e-50 of the mass at the first place, but only it leads on: once a dead block."""
    scores = torch.tensor([[[0.0, -115.0], [0.0, IMPOSSIBLE], [0.0, 0.0]]])
    q = torch.tensor([[IMPOSSIBLE, 0.0], [-120.0, IMPOSSIBLE]])
    last, half = torch.tensor([0]), torch.full((1, 3), 0.5, dtype=torch.float64)
    for union in (True, False):
        search, ids = PathSearch(DenseTransitions(q), 2, union), scores.topk(2).indices
        found = search.sample(scores, ids, last, half)
        assert (found.tokens.tolist(), found.dead.tolist()) == ([[1, 0, 1]], [False])
        assert search.best(scores, last).tokens.tolist() == [[1, 0, 1]]


@given(seeds, heads, top_ks, flags, flags, flags)
def test_a_walks_laws_are_those_of_all_paths(
    seed: int, n: int, k: int, union: bool, boundary: bool, zeros: bool
) -> None:
    """Their product along any path is its share of the weight of all; each sums to 1."""
    scores, q = random_problem(seed, n, zeros=zeros)
    last, ids = seed % VOCAB, scores.topk(k).indices
    paths = all_paths(scores[0], q, k, last if boundary else None, union=union)
    total = math.fsum(math.exp(weight) for weight in paths.values())
    for path, weight in itertools.islice(paths.items(), 60):
        search = PathSearch(DenseTransitions(q), k, union, boundary)
        walk = search.walk(scores, ids, torch.tensor([last]))
        chance, before = 1.0, None
        for place, token in enumerate(path):
            law = walk.law(place, before)[0]
            assert float(law.sum()) == pytest.approx(1, abs=1e-9)
            chance *= float(law[token])
            before = torch.tensor([token])
            if chance == 0:
                break
        if total > 0:
            assert chance == pytest.approx(math.exp(weight) / total, abs=1e-9)


@given(seeds, st.integers(2, 4), heads, top_ks, flags, flags)
def test_a_batch_is_its_rows(
    seed: int, batch: int, n: int, k: int, union: bool, boundary: bool
) -> None:
    scores, q = random_problem(seed, n, batch, zeros=False)
    search = PathSearch(DenseTransitions(q), k, union, boundary)
    last = torch.arange(batch)
    uniform = torch.rand(batch, n, generator=torch.Generator().manual_seed(seed)).double()
    ids = scores.topk(k).indices
    together = search.best(scores, last).tokens, search.sample(scores, ids, last, uniform).tokens
    walk, first = search.walk(scores, ids, last), together[1][:, 0]
    laws = [walk.law(place, first if place else None) for place in range(min(n, 2))]
    for row in range(batch):
        at = slice(row, row + 1)
        assert (search.best(scores[at], last[at]).tokens == together[0][at]).all()
        drawn = search.sample(scores[at], ids[at], last[at], uniform[at]).tokens
        assert (drawn == together[1][at]).all()
        alone = search.walk(scores[at], ids[at], last[at])
        for place, law in enumerate(laws):
            torch.testing.assert_close(alone.law(place, first[at] if place else None), law[at])


@given(seeds, st.sampled_from([0.0, 0.4, 1.0, 2.0]))
def test_sparse_and_table_hold_the_same(seed: int, weight: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    seen = torch.rand(VOCAB, VOCAB, generator=generator) < 0.3
    rows, columns = seen.nonzero().unbind(1)
    parts = [torch.randn(size, generator=generator) for size in (len(rows), VOCAB, VOCAB)]
    parts[1][0] = -torch.inf  # a code that nothing was seen behind
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), seen.sum(1).cumsum(0)])
    stored = TransitionTable(offsets, columns.int(), *parts)
    table = stored.on(torch.device("cpu"), ids=VOCAB + 1, weight=weight)
    assert isinstance(table, DenseTransitions)
    limit = pytest.MonkeyPatch()
    with limit.context() as patch:
        patch.setattr("speculative_tts.decoding.blocks.transitions.TABLE", 1)
        sparse = stored.on(torch.device("cpu"), ids=VOCAB + 1, weight=weight)
    assert isinstance(sparse, SparseTransitions)
    assert table.size == sparse.size == VOCAB
    ids = torch.randint(0, VOCAB + 1, (2, 3, 5), generator=generator)
    assert (sparse.pairs(ids, ids[..., :4]) == table.pairs(ids, ids[..., :4])).all()
    assert table.pairs(ids, ids[..., :4]).shape == (2, 3, 4, 5)
    wanted = torch.full((VOCAB + 1, VOCAB + 1), -torch.inf)  # nothing leads to or from a stop id
    codes = parts[1][:, None] + parts[2]
    codes[rows, columns] = parts[0]
    wanted[:VOCAB, :VOCAB] = weight * codes if weight else 0
    every = torch.arange(VOCAB + 1)
    torch.testing.assert_close(table.pairs(every, every).T, wanted)


@pytest.mark.parametrize("union", [True, False])
@pytest.mark.parametrize("boundary", [True, False])
def test_sampled_paths_follow_the_law_of_all_paths(union: bool, boundary: bool) -> None:
    draws, n, k = 20_000, 3, 3
    scores, q = random_problem(5, n, zeros=True)
    paths = all_paths(scores[0], q, k, 2 if boundary else None, union=union)
    total = sum(math.exp(weight) for weight in paths.values())
    law = {path: math.exp(weight) / total for path, weight in paths.items() if weight > -math.inf}
    many = scores.expand(draws, -1, -1)
    uniform = torch.rand(draws, n, generator=torch.Generator().manual_seed(1)).double()
    found = PathSearch(DenseTransitions(q), k, union, boundary).sample(
        many, many.topk(k).indices, torch.full((draws,), 2), uniform
    )
    assert not found.dead.any()
    statistic, bound = chi_square(Counter(map(tuple, found.tokens.tolist())), law)
    assert statistic < bound


@pytest.mark.parametrize("union", [True, False])
@pytest.mark.parametrize("k", [1, 3, VOCAB])
@pytest.mark.parametrize("minimum", [0, 1])
def test_one_head_sampled_is_top_k_sampling(union: bool, k: int, minimum: int) -> None:
    """Over a grid of both uniforms tokens have the sampler's probabilities, stop id included."""
    grid, stop_id, temperature = 200, 4, 0.7
    logits, q = random_problem(3, 1, zeros=False)
    logits = logits.float()
    request = Request("a", torch.zeros(2, 1), None, minimum, 5, 0)
    rows = BatchState.of([request] * grid**2, (stop_id,), VOCAB, slack=1)
    points = (torch.arange(grid).double() + 0.5) / grid
    rows.uniforms[:, 0, 1] = points.repeat(grid)  # ACCEPT: does the utterance end
    rows.uniforms[:, 0, 3] = points.repeat_interleave(grid)  # NEXT: which token
    stop = StopRule.build((stop_id,), VOCAB, [0], rows.tokens.device)
    search = PathSearch(DenseTransitions(q[:VOCAB, :VOCAB]), k, union)
    choose = ViterbiHeads(search, stop, temperature=temperature, sample=True)
    found = choose(logits.expand(grid**2, -1, -1), rows).tokens[:, 0]
    sampler = Sampler(temperature, top_k=k)
    first = BatchState.of([request], (stop_id,), VOCAB, slack=1)
    expected = sampler(logits, first.tokens, first.positions(1), first.stop)[0, 0]
    shares = found.bincount(minlength=VOCAB) / grid**2
    torch.testing.assert_close(shares, expected, atol=2 / grid, rtol=0)
    assert (shares[expected == 0] == 0).all()


def test_golden_cases() -> None:
    rows = list(check(GOLDEN))
    assert len(rows) == 12
    assert all(row.passed for row in rows), [row for row in rows if not row.passed]


def test_top_k_out_of_range_is_told() -> None:
    table = DenseTransitions(torch.zeros(VOCAB, VOCAB), size=VOCAB - 1)
    for k in (0, VOCAB):
        with pytest.raises(ValueError, match=rf"top_k {k} is not in 1 to {VOCAB - 1}"):
            PathSearch(table, k)
    empty = torch.zeros(0)
    rows = TransitionTable(torch.zeros(2).long(), empty.long(), empty, empty, empty)
    with pytest.raises(ValueError, match="weight -1"):
        rows.on(torch.device("cpu"), ids=1, weight=-1)
