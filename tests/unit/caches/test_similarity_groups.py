"""Groups of vectors against a plain loop, and theta for a mean size."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor

from speculative_tts.caches import groups, provide
from speculative_tts.progress import Progress


class Stages:
    """Keeps what is told of progress: work done and all work of each stage, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.done: list[int] = []
        self.work: list[int] = []

    @contextmanager
    def __call__(self, name: str, work: int) -> Iterator[Progress]:
        self.names.append(name)
        self.work.append(work)
        self.done.append(0)

        def progress(more: int) -> None:
            self.done[-1] += more
            assert self.done[-1] <= work

        yield progress


def unit_vectors(n: int, size: int = 6, seed: int = 0) -> Tensor:
    return groups.normalise(torch.randn(n, size, generator=torch.Generator().manual_seed(seed)))


def slow_sets(unit: Tensor, theta: float, cap: int | None) -> list[list[int]]:
    """G(t) of each token by the definition, each set once."""
    cosine, found = unit @ unit.T, []
    for token in range(len(unit)):
        others = [x for x in range(len(unit)) if x != token and cosine[token, x] > theta]
        others.sort(key=lambda x: -float(cosine[token, x]))
        group = sorted([token, *others[: None if cap is None else cap - 1]])
        if group not in found:
            found.append(group)
    return found


@pytest.mark.parametrize("cap", [None, 1, 4])
@pytest.mark.parametrize("theta", [-0.5, 0.2, 0.7, 0.95])
def test_sets_are_those_of_the_definition(
    theta: float, cap: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With blocks far smaller than the vocabulary."""
    monkeypatch.setattr(groups, "ROWS", 7)
    monkeypatch.setattr(groups, "COLUMNS", 16)
    unit, stages = unit_vectors(60), Stages()
    if cap is None:  # a cap would have to choose among equals
        unit[59] = unit[3]  # equal vectors, equal sets
    pairs = groups.similar_pairs(unit, theta, stages)
    sets = groups.distinct_sets(pairs, theta, 60, cap)
    found = [s.tolist() for s in sets.tokens.split(sets.sizes.tolist())]
    assert found == slow_sets(unit, theta, cap)
    assert stages.names == ["similarity"]
    assert stages.done == stages.work
    assert stages.work[0] >= 60 * 59 / 2
    if cap is not None:
        assert int(sets.sizes.max()) <= cap


def test_theta_one_leaves_every_token_alone_even_among_equal_vectors() -> None:
    """Of some the product is above 1, by rounding."""
    unit = unit_vectors(100).repeat(2, 1)
    sets = groups.distinct_sets(groups.similar_pairs(unit, 1.0), 1.0, 200)
    assert sets.tokens.tolist() == list(range(200))


def test_a_cosine_at_theta_is_not_above_it() -> None:
    unit = torch.tensor([[1.0, 0, 0, 0], [0.5, 0.5, 0.5, 0.5]])
    assert len(groups.similar_pairs(unit, 0.5).first) == 0
    pairs = groups.similar_pairs(unit, 0.4)
    assert pairs.cosine.tolist() == [0.5]
    assert groups.distinct_sets(pairs, 0.5, 2).sizes.tolist() == [1, 1]


def test_zero_vectors_are_similar_to_nothing() -> None:
    unit = groups.normalise(torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 3.0]]))
    assert unit.norm(dim=1).tolist() == [0, 0, 1, 1]
    assert len(groups.similar_pairs(unit, 0.0).first) == 0


def test_transposing_twice_gives_the_sets_back() -> None:
    unit = unit_vectors(50)
    sets = groups.distinct_sets(groups.similar_pairs(unit, 0.3), 0.3, 50)
    offsets, values = groups.transpose(sets.offsets, sets.tokens, 50)
    assert offsets.dtype == values.dtype == torch.int32
    again = groups.transpose(offsets, values, len(sets.sizes))
    assert torch.equal(again[0], sets.offsets)
    assert torch.equal(again[1], sets.tokens)


@pytest.mark.parametrize("wanted", [1, 1.5, 4.5, 40, 140, 300])
def test_theta_is_found_for_a_mean_size(wanted: float) -> None:
    unit = unit_vectors(300, 8)
    theta, pairs = groups.find_theta(unit, wanted, None)
    size = groups.distinct_sets(pairs, theta, 300).mean_size
    assert size == pytest.approx(wanted, rel=0.01)
    assert -1 < theta == round(theta, 6)


@pytest.mark.parametrize("wanted", [1.5, 4.5, 140])
def test_the_floor_is_that_of_all_cosines_where_all_are_the_sample(
    wanted: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To one of 20,000 bins from -1 to 1: above it there are enough, a bin higher too few."""
    monkeypatch.setattr(groups, "COLUMNS", 64)
    unit = unit_vectors(300, 8)
    floor = groups.sampled_floor(unit, wanted, groups.silent)
    cosine = (unit @ unit.T).double()
    low, high = ((cosine > edge).sum() / 300 for edge in (floor - 1e-6, floor + 1e-4 + 1e-6))
    assert high < wanted <= low
    assert groups.sampled_floor(unit, 300, groups.silent) == -1


def test_theta_does_not_depend_on_the_global_generator() -> None:
    """Of more tokens than the sample a part is drawn."""
    unit, found = unit_vectors(2000, 8), set()
    for seed in range(2):
        torch.manual_seed(seed)
        found.add(groups.find_theta(unit, 4, None)[0])
    assert len(found) == 1


def test_at_mean_size_one_all_are_alone_however_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: sizes within 0.2 % were good enough, with some pairs under the label 1."""
    unit = unit_vectors(4000, 3)
    unit[1] = unit[0]
    monkeypatch.setattr(groups, "similar_pairs", None)  # nothing to look for
    theta, pairs = groups.find_theta(unit, 1, None)
    assert theta == 1
    assert groups.distinct_sets(pairs, theta, 4000).mean_size == 1


@pytest.mark.parametrize(
    ("offsets", "told"),
    [
        ([0, 1, 3, 7, 12], {"median_size": 3, "mean_size": 3.0, "singletons": 0.25, "bytes": 168}),
        ([0, 1, 3, 7], {"median_size": 2, "mean_size": 2.333, "singletons": 0.3333, "bytes": 104}),
        ([0, 1, 2, 7], {"median_size": 1, "mean_size": 2.333, "singletons": 0.6667, "bytes": 104}),
    ],
)
def test_what_people_are_told_of_groups(offsets: list[int], told: dict[str, float]) -> None:
    """The median of an even number lies between; 8 bytes a member, 4 an offset, both ways."""
    n = offsets[-1]
    sets = groups.Sets(torch.tensor(offsets), torch.arange(n), torch.zeros(n))
    largest = max(b - a for a, b in pairwise(offsets))
    rest = {"theta": 0.5, "tokens": n, "groups": len(offsets) - 1, "members": n}
    assert provide.facts(sets, 0.5, n) == told | rest | {"max_size": largest}


def test_codes_of_all_shards_are_counted_if_they_are_ids(tmp_path: Path) -> None:
    for name, codes, split in (("a", [0, 3], "train"), ("b", [3, 2], "train"), ("c", [9], "dev")):
        table = pa.Table.from_pylist([{"codes": codes, "split": split}])
        pq.write_table(table, tmp_path / f"{name}.parquet")
    counts = provide.count_codes(tmp_path, 4)
    assert (counts.tolist(), counts.dtype) == ([1, 0, 1, 2], torch.int64)
    with pytest.raises(ValueError, match=r"a.parquet has code 3, the target only 3 ids; give"):
        provide.count_codes(tmp_path, 3)


@pytest.mark.parametrize("wanted", [8, 10])
def test_theta_is_found_under_a_cap(wanted: int) -> None:
    """At the cap itself most groups are cut: pairs down to a lower theta are needed."""
    unit = unit_vectors(300, 8)
    theta, pairs = groups.find_theta(unit, wanted, 10)
    size = groups.distinct_sets(pairs, theta, 300, 10).mean_size
    assert size == pytest.approx(wanted, rel=groups.CLOSE)


@pytest.mark.parametrize(
    ("size", "cap", "message"), [(0.5, None, "outside"), (31, None, "outside"), (9, 5, "above cap")]
)
def test_mean_sizes_out_of_reach_are_refused(size: float, cap: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        groups.check_mean_size(size, 30, cap)
    for within in (1, 1.5, 5):
        groups.check_mean_size(within, 30, 5)
    groups.check_mean_size(30, 30, None)


@pytest.mark.parametrize("passes", [1, 2])
def test_every_stage_of_the_search_ends_at_its_work(
    passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the first floor was too high, and the cosines are gone through again."""
    monkeypatch.setattr(groups, "ROWS", 7)
    monkeypatch.setattr(groups, "COLUMNS", 64)
    stages, real, calls = Stages(), groups.sampled_floor, []

    def floor(*arguments: object) -> float:
        calls.append(arguments)
        found = real(*arguments)
        return 0.999 if len(calls) < passes else found

    monkeypatch.setattr(groups, "sampled_floor", floor)
    theta, pairs = groups.find_theta(unit_vectors(300, 8), 4.5, None, stages)
    assert groups.distinct_sets(pairs, theta, 300).mean_size == pytest.approx(4.5, rel=0.01)
    assert stages.names == [*["sample", "similarity"] * passes, "theta"]
    assert stages.done == stages.work


def test_too_many_pairs_are_refused_before_memory_is(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = unit_vectors(1).repeat(4, 1)  # six pairs, in blocks of one row
    monkeypatch.setattr(groups, "ROWS", 1)
    monkeypatch.setattr(groups, "MOST_PAIRS", 6)
    assert len(groups.similar_pairs(unit, 0.9).first) == 6
    monkeypatch.setattr(groups, "MOST_PAIRS", 5)
    with pytest.raises(ValueError, match="raise theta or lower mean_size"):
        groups.similar_pairs(unit, 0.9)
