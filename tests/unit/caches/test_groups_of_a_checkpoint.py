"""Groups of a checkpoint's tokens: made once, found by what they were made of."""

import dataclasses
import json
from collections.abc import Callable
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

from speculative_tts.caches import provide, store, vectors
from speculative_tts.codecs.registry import Codec, load_codec
from speculative_tts.decoding.rules.group import Group
from speculative_tts.models.decoder.loading import EMBEDDING, stored_rows
from speculative_tts.provenance import content_hash
from speculative_tts.schema.common import GroupsConfig, GroupWeights, Similarity

N, STOPS = 40, [40]  # of the fake models
Made = Callable[..., store.Entry]


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
    """Of the codes; stop ids are no sound."""
    codec = load_codec(*sources.codec)
    found = {source: provide.code_vectors(source, sources) for source in Similarity}
    for one in found.values():
        assert one.isnan().any(-1).nonzero()[:, 0].tolist() == STOPS
        assert len(one) == N + 1
    codebook = torch.from_numpy(codec.codebook)  # type: ignore[attr-defined]
    torch.testing.assert_close(found[Similarity.codebook][:N], codebook)
    rows = stored_rows(sources.target, N).float()
    torch.testing.assert_close(found[Similarity.embedding][:N], rows)


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


def change_weights(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    state[EMBEDDING][0, 0] += 1
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


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
    assert provide.likeness_of(torch.ones(3, 6), torch.arange(3), cast(Codec, object())) is None
