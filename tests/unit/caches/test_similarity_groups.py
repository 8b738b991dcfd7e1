"""Groups of vectors against a plain loop; theta for a mean size; sources and options."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from fake_models import write_codec, write_fake_models
from safetensors.torch import load_file, save_file
from torch import Tensor

from speculative_tts.caches import groups, provide, store, vectors
from speculative_tts.codecs.registry import Codec, load_codec
from speculative_tts.decoding.rules.group import Group
from speculative_tts.models.decoder.loading import EMBEDDING, stored_rows
from speculative_tts.progress import Progress
from speculative_tts.provenance import content_hash
from speculative_tts.schema.common import GroupsConfig, GroupWeights, Similarity

N, STOPS = 40, [40]  # of the fake models
Made = Callable[..., store.Entry]


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
    for theta in (-0.99, 1):
        groups.check_theta(theta)


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


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> provide.Sources:
    root = write_fake_models(tmp_path_factory.mktemp("models")).root
    return provide.Sources(root / "target", ("tiny", root / "codec"), torch.device("cpu"))


def config(tmp_path: Path, **options: object) -> GroupsConfig:
    return GroupsConfig(cache=str(tmp_path), **options)  # type: ignore[arg-type]


@pytest.fixture
def groups_of(sources: provide.Sources, tmp_path: Path) -> Made:
    """Makes groups of the little checkpoint by options, in a cache of the test's own."""
    return lambda **options: provide.acoustic_groups(config(tmp_path, **options), sources)


@pytest.mark.parametrize("source", Similarity)
def test_groups_of_a_checkpoint(source: Similarity, groups_of: Made) -> None:
    """Usable by the rule; stop ids are alone, whatever theta."""
    entry = groups_of(theta=-0.9, source=source)
    arrays = provide.tensors(entry, torch.device("cpu"))
    rule = Group(**arrays)
    begin, end = arrays["token_offsets"][STOPS[0] : STOPS[0] + 2].tolist()
    assert end == begin + 1
    own = int(arrays["token_groups"][begin])
    low, high = arrays["group_offsets"][own : own + 2].tolist()
    assert arrays["group_tokens"][low:high].tolist() == STOPS
    assert rule.n_groups == entry.facts["groups"]
    assert entry.facts["members"] == len(arrays["group_tokens"])
    assert entry.facts["max_size"] > 10
    law = torch.full((N + 1,), 1 / (N + 1))
    torch.testing.assert_close(rule.coarse(law).sum(), torch.tensor(1.0))


def test_neighbours_are_the_nearest_others() -> None:
    """Against all distances; what has no place is nobody's neighbour and has none itself."""
    points = torch.randn(600, 3, generator=torch.Generator().manual_seed(0))  # more than two pieces
    points[[7, 299]] = torch.nan
    found = vectors.nearest(points, 4)
    for row in (0, 150, 298, 599):
        apart = (points - points[row]).norm(dim=1)
        others = [i for i in apart.argsort().tolist() if i not in (row, 7, 299)]
        assert found[row].tolist() == others[:4]
    assert found[7].tolist() == [7] * 4
    assert vectors.nearest(points[:3], 9).shape == (3, 2)


def test_vectors_are_what_they_are_called(sources: provide.Sources) -> None:
    codec = load_codec(*sources.codec)
    rows = stored_rows(sources.target, N)
    for source, expected in (
        (Similarity.codebook, torch.from_numpy(codec.codebook)),  # type: ignore[attr-defined]
        (Similarity.embedding, rows.float()),
    ):
        torch.testing.assert_close(provide.code_vectors(source, sources)[:N], expected)


def test_ids_behind_those_of_a_cache_are_alone(groups_of: Made) -> None:
    entry = groups_of(theta=0.5)
    cpu = torch.device("cpu")
    found, wide = provide.tensors(entry, cpu), provide.tensors(entry, cpu, N + 4)
    one_more = provide.tensors(entry, cpu, N + 2)
    assert torch.equal(one_more["token_groups"], wide["token_groups"][:-2])
    for name, array in found.items():
        assert torch.equal(wide[name][: len(array)], array)
        assert wide[name].dtype == array.dtype
    for begins, members, first in (
        ("token_offsets", "token_groups", len(found["group_offsets"]) - 1),
        ("group_offsets", "group_tokens", N + 1),
    ):
        assert wide[begins][-4:].diff().tolist() == [1, 1, 1]
        assert wide[members][-3:].tolist() == [first, first + 1, first + 2]
    assert wide["scores"][-3:].tolist() == [1, 1, 1]


@pytest.mark.parametrize("source", Similarity)
def test_vectors_of_speech_ids(source: Similarity, sources: provide.Sources) -> None:
    """Of the codes; stop ids are no sound."""
    found = provide.code_vectors(source, sources)
    assert found.isnan().any(-1).nonzero()[:, 0].tolist() == STOPS
    assert len(found) == N + 1


def test_codes_are_heard_once_for_groups_of_all_sizes(
    sources: provide.Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups_of: Made
) -> None:
    heard = []
    hear = vectors.mel_vectors
    monkeypatch.setattr(vectors, "mel_vectors", lambda *x: heard.append(1) or hear(*x))
    made = [groups_of(source=Similarity.mel, theta=theta) for theta in (0.5, 0.9)]
    assert len(heard) == 1
    alone = provide.acoustic_groups(
        config(tmp_path / "other", source=Similarity.mel, theta=0.9), sources
    )
    assert len(heard) == 2
    assert made[0].facts["members"] != made[1].facts["members"]
    for name, array in alone.arrays.items():
        assert np.array_equal(made[1].arrays[name], array)


def test_a_codec_without_a_codebook_is_told() -> None:
    with pytest.raises(ValueError, match=r"codec x has no codebook; give source=embedding"):
        vectors.codebook_vectors(cast(Codec, object()), "x")


def test_a_codebook_is_compared_in_single_precision() -> None:
    codec = cast(Codec, SimpleNamespace(codebook=np.eye(3)))
    assert vectors.codebook_vectors(codec, "x").dtype == torch.float32


def test_a_second_look_makes_nothing(monkeypatch: pytest.MonkeyPatch, groups_of: Made) -> None:
    first = groups_of(mean_size=4.5)
    monkeypatch.delattr(provide, "make")
    again = groups_of(mean_size=4.5)
    assert again.folder == first.folder
    assert again.facts["mean_size"] == pytest.approx(4.5, rel=0.15)  # of 41 tokens


@pytest.mark.parametrize(
    ("options", "others"),
    [
        ({"mean_size": 3.0}, {"mean_size": 4.0}),
        ({"theta": -0.5}, {"theta": -0.5, "cap": 3}),
        ({"theta": 0.2}, {"theta": 0.2, "weights": GroupWeights.unigram}),
    ],
)
def test_groups_of_other_settings_are_others(
    options: dict[str, object], others: dict[str, object], tmp_path: Path, groups_of: Made
) -> None:
    row = {"codes": [0, 0, 1, 39], "split": "train"}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "train-0000.parquet")
    first, second = (groups_of(unigram=str(tmp_path), **one) for one in (options, others))
    assert first.folder != second.folder
    assert any(not np.array_equal(first.arrays[n], second.arrays[n]) for n in first.arrays)


def test_a_mean_size_is_that_under_the_cap(groups_of: Made) -> None:
    """Its theta is lower than that of the same size without one."""
    capped, free = (groups_of(mean_size=5.0, cap=cap) for cap in (6, None))
    assert capped.facts["mean_size"] == pytest.approx(5, rel=0.15)
    assert capped.facts["theta"] < free.facts["theta"]


def test_theta_of_a_found_size_makes_the_same_groups(groups_of: Made) -> None:
    found = groups_of(mean_size=4.0)
    given = groups_of(theta=found.facts["theta"])
    for name, array in found.arrays.items():
        assert np.array_equal(array, given.arrays[name])


def test_unigram_weights_are_shares_of_the_training_codes(
    sources: provide.Sources, tmp_path: Path
) -> None:
    rows = [
        {"codes": [0, 0, 1, 39], "split": "train"},
        {"codes": [7, 7, 7], "split": "dev"},  # not counted
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "train-0000.parquet")
    options = {"theta": 0.3, "weights": GroupWeights.unigram, "unigram": str(tmp_path)}
    entry = provide.acoustic_groups(config(tmp_path / "cache", **options), sources)
    counts = np.ones(N + 1)
    counts[[0, 1, 39]] += [2, 1, 1]
    offsets, tokens = entry.arrays["group_offsets"], entry.arrays["group_tokens"]
    sums = np.add.reduceat(counts[tokens] / counts.sum(), offsets[:-1])
    np.testing.assert_allclose(entry.arrays["scores"], sums, rtol=1e-6)
    with pytest.raises(ValueError, match="no Parquet shards"):
        provide.acoustic_groups(
            config(tmp_path, **(options | {"unigram": str(tmp_path / "x")})), sources
        )


def test_a_named_cache_of_another_target_is_refused_saying_which(
    sources: provide.Sources, tmp_path: Path, groups_of: Made
) -> None:
    mine = groups_of(theta=0.5)
    named = config(tmp_path / "unused", path=str(mine.folder))
    found = provide.acoustic_groups(named, sources)
    assert (found.folder, found.facts) == (mine.folder, mine.facts)
    assert found.facts["likeness"] is not None
    torch.manual_seed(9)
    other = write_fake_models(tmp_path / "other").root / "target"
    change_weights(other)
    theirs = provide.Sources(other, sources.codec, sources.device)
    with pytest.raises(
        ValueError, match=r"made for another target: its embedding is \w{12}, that of .*other"
    ):
        provide.acoustic_groups(named, theirs)
    array = mine.folder / "group_tokens.npy"
    array.write_bytes(array.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"group_tokens.npy is damaged .* sst-precompute"):
        provide.acoustic_groups(named, sources)


def test_a_named_cache_of_something_else_is_named_as_such(tmp_path: Path, groups_of: Made) -> None:
    zeros = {"counts": np.zeros(3)}
    other = store.save_entry(tmp_path, "transitions", {"codes": "x"}, zeros, {})
    with pytest.raises(ValueError, match=r"holds transitions \(counts\), and groups are tok"):
        groups_of(path=str(other))
    (tmp_path / "shipped").mkdir()
    (tmp_path / "shipped" / "transitions.json").touch()
    with pytest.raises(ValueError, match=r"is no cache, it has transitions.json; make groups"):
        groups_of(path=str(tmp_path / "shipped"))


def test_likeness_is_to_the_codec_that_is_used(
    sources: provide.Sources, tmp_path: Path, groups_of: Made
) -> None:
    """Another codec once got the first one's figures."""
    first = groups_of(theta=0.5)
    (tmp_path / "codec").mkdir()
    write_codec(tmp_path / "codec", np.random.default_rng(5))
    others = dataclasses.replace(sources, codec=("tiny", tmp_path / "codec"))
    second = provide.acoustic_groups(config(tmp_path, theta=0.5), others)
    assert first.facts["likeness"] != second.facts["likeness"]
    named = provide.acoustic_groups(config(tmp_path, path=str(first.folder)), others)
    assert named.facts["likeness"] is None


def test_theta_and_mean_size_are_not_both_given(groups_of: Made) -> None:
    """Nor is the default, 10, when it is written out."""
    with pytest.raises(ValueError, match=r"theta 0.5 and mean_size 10.0 are both given"):
        groups_of(theta=0.5, mean_size=10.0)


def change_weights(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    state[EMBEDDING][0, 0] += 1
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("theta", [-1.0, 1.01, float("nan")])
def test_theta_outside_its_range_is_refused(theta: float, groups_of: Made) -> None:
    with pytest.raises(ValueError, match=r"theta .* is outside \(-1, 1\]"):
        groups_of(theta=theta)


def test_a_cap_below_one_is_refused(groups_of: Made) -> None:
    with pytest.raises(ValueError, match="cap 0 is below 1"):
        groups_of(cap=0)
    with pytest.raises(ValueError, match=r"mean_size 9.0 is above cap 5; raise cap or drop it"):
        groups_of(cap=5, mean_size=9.0)


@pytest.mark.parametrize("cap", [1, 5])
def test_a_cap_is_the_most_of_a_group(cap: int, groups_of: Made) -> None:
    entry = groups_of(theta=-0.9, cap=cap)
    assert entry.facts["max_size"] == cap


def test_a_tokens_own_group_has_it(groups_of: Made) -> None:
    arrays = groups_of(theta=0.3).arrays
    offsets, tokens = arrays["group_offsets"], arrays["group_tokens"]
    assert len(arrays["own"]) == N + 1
    for token, own in enumerate(arrays["own"]):
        assert token in tokens[offsets[own] : offsets[own + 1]]


def test_half_precision_embeddings_are_compared_in_full(
    sources: provide.Sources, tmp_path: Path
) -> None:
    folder = copytree(sources.target, tmp_path / "target")
    file = folder / "model.safetensors"
    state = load_file(file)
    state[EMBEDDING] = state[EMBEDDING].bfloat16()
    save_file(state, file, metadata={"format": "pt"})
    half = dataclasses.replace(sources, target=folder)
    assert provide.code_vectors(Similarity.embedding, half).dtype == torch.float32


@pytest.mark.parametrize("source", Similarity)
def test_manifest_says_what_the_groups_were_made_from(
    source: Similarity, sources: provide.Sources, groups_of: Made
) -> None:
    """By names that stay: caches are looked up and refused by them."""
    entry = groups_of(theta=0.5, source=source)
    manifest = json.loads((entry.folder / "manifest.json").read_text())
    options = {"theta": 0.5, "mean_size": None, "cap": None, "unigram": None}
    made_from = {
        Similarity.mel: {"mel": vectors.MEL_DEFINITION},
        Similarity.codebook: {},
        Similarity.embedding: {"embedding": vectors.embedding_hash(stored_rows(sources.target, N))},
    }
    assert manifest["description"] == options | made_from[source] | {
        "source": source.name,
        "vocabulary": [N, N + 1, STOPS],
        "codec": content_hash(sources.codec[1]),
        "beside": provide.BESIDE,
    }
    assert set(manifest["files"]) == {f"{name}.npy" for name in entry.arrays}


def test_likeness_is_to_a_codebook_if_there_is_one() -> None:
    assert provide.likeness_of(unit_vectors(3), torch.arange(3), cast(Codec, object())) is None
