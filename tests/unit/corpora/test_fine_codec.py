"""sst-prepare makes two codecs of the same takes: the fine one stays nearer to what was said."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from speculative_tts.codecs.tiny import FRAMES_PER_TOKEN, ResidualTinyCodec, TinyCodec
from speculative_tts_makers.corpora import features, tiny
from speculative_tts_makers.corpora.features import SpokenTake, read_feature_shard
from speculative_tts_makers.corpora.plan import Take
from speculative_tts_makers.corpora.postnet import with_postnet
from speculative_tts_makers.corpora.residual import ResidualConfig

COLUMNS = 27  # of a frame
N_TAKES, N_FINE_TAKES = 60, 20
RECIPE = tiny.TinyCorpusRecipe(
    n_takes=N_TAKES,
    n_fine_takes=N_FINE_TAKES,
    takes_per_shard=20,
    n_codes=8,
    n_fine_codes=64,
    postnet_steps=3,
    residual=ResidualConfig(n_layers=2, n_codes=8, codec_shards=2, iterations=2),
    workers=1,
)


def spoken(take: Take, seed: int) -> Iterator[SpokenTake]:
    """Noise in place of speech: a token a word and one more at each end."""
    rng = np.random.default_rng([seed, *take.id.encode()])
    count = len(take.words)
    frames = rng.standard_normal((FRAMES_PER_TOKEN * (count + 2), COLUMNS)).astype(np.float32)
    ends = tuple(float(2 + index) for index in range(count))
    yield SpokenTake(take.id, take.speakers[0].name, take.words, 1.0, ends, frames)


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus of 60 takes with codebooks of 8 and 64 entries; the lists are left out."""
    monkeypatch.setattr(features, "speak_take", spoken)
    for unspoken in ("write_dev_codes", "write_list"):
        monkeypatch.setattr(tiny, unspoken, lambda *_: None)
    tiny.prepare_tiny(RECIPE, tmp_path)
    return tmp_path


def rows(folder: Path) -> list[dict[str, Any]]:
    return [
        row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()
    ]


def distance(codec: TinyCodec, corpus: Path) -> float:
    """Mean squared distance of the takes' tokens to the entries that stand for them."""
    takes = [
        t for path in sorted((corpus / "features").iterdir()) for t in read_feature_shard(path)
    ]
    tokens = np.concatenate([t.features.reshape(-1, FRAMES_PER_TOKEN * COLUMNS) for t in takes])
    weighed = tokens * np.tile(codec.weights, FRAMES_PER_TOKEN)
    return float(((weighed[:, None] - codec.codebook[None]) ** 2).sum(-1).min(1).mean())


def test_both_say_the_same_takes_the_fine_one_more_closely(prepared: Path) -> None:
    coarse, fine = (TinyCodec.load(prepared / name) for name in ("codec", "codec_fine"))
    assert (len(coarse.codebook), len(fine.codebook)) == (8, 64)
    assert distance(fine, prepared) < 0.9 * distance(coarse, prepared)
    both, new = rows(prepared / "codes_fine")[:N_TAKES], rows(prepared / "codes_fine")[N_TAKES:]
    assert len(new) == N_FINE_TAKES
    pairs = list(zip(rows(prepared / "codes"), both, strict=True))
    assert len(pairs) == N_TAKES
    for one, other in pairs:
        differing = {key for key in one if one[key] != other[key]}
        assert differing <= {"codes"}
        assert len(one["codes"]) == len(other["codes"])
        assert max(one["codes"]) < 8
    assert max(code for _, row in pairs for code in row["codes"]) >= 8


def test_each_has_a_postnet_of_what_its_codebook_heard(prepared: Path) -> None:
    shards = sorted((prepared / "features").iterdir())
    layered = ResidualTinyCodec.load(prepared / "codec_residual")
    for codec, heard, seed in (
        (TinyCodec.load(prepared / "codec"), shards[:3], RECIPE.seed),
        (TinyCodec.load(prepared / "codec_fine"), shards[:3], RECIPE.seed),
        (layered, shards[:2], RECIPE.residual.seed),
    ):
        assert codec.postnet
        wanted = with_postnet(codec, features.read_features(heard), 3, seed).postnet
        assert wanted
        for name, array in wanted.arrays.items():
            assert codec.postnet.arrays[name] == pytest.approx(array, abs=1e-3)


def test_what_is_there_is_kept(prepared: Path) -> None:
    """A corpus that was made before the fine codec gets it without being spoken again."""
    before = {path: path.read_bytes() for path in prepared.rglob("*.*")}
    for path in (prepared / "codec_fine").iterdir():
        path.unlink()
    tiny.prepare_tiny(RECIPE, prepared)
    assert {path: path.read_bytes() for path in prepared.rglob("*.*")} == before


def test_other_sizes_want_a_folder_of_their_own(prepared: Path) -> None:
    """Pieces of both stood beside each other."""
    before = {path: path.read_bytes() for path in prepared.rglob("*.*")}
    with pytest.raises(ValueError, match=r"made with n_takes=60, now 80; give another out="):
        tiny.prepare_tiny(replace(RECIPE, n_takes=80), prepared)
    assert {path: path.read_bytes() for path in prepared.rglob("*.*")} == before
