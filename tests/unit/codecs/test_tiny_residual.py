"""The residual tiny codec: layers, storage, errors and what survives the round trip."""

from pathlib import Path

import numpy as np
import pytest

from speculative_tts.codecs import tiny, world
from speculative_tts.codecs.registry import load_codec
from speculative_tts.codecs.tiny import ResidualTinyCodec
from speculative_tts_makers.corpora.codec_training import train_residual_codec


def tokens(seed: int, number: int) -> np.ndarray:
    """Frame features of `number` tokens, plausible in spread only."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(4 * number, world.N_FEATURES))


@pytest.fixture(scope="module")
def codec() -> ResidualTinyCodec:
    return train_residual_codec([tokens(1, 300), tokens(2, 300)], 3, 16, iterations=6, seed=1)


def test_codes_are_layers_by_tokens_and_a_token_is_640_samples(codec: ResidualTinyCodec) -> None:
    time = np.arange(8000) / world.SAMPLE_RATE
    wave = (0.3 * np.sign(np.sin(2 * np.pi * 120 * time))).astype(np.float32)
    codes = codec.encode(wave)
    assert codes.shape == (3, 12)
    assert codes.dtype == np.int64
    assert codec.decode(codes).shape == (12 * 640,)
    assert (codec.n_layers, codec.n_codes, codec.token_rate) == (3, 16, 25.0)


def test_each_layer_brings_the_round_trip_closer(codec: ResidualTinyCodec) -> None:
    features = tokens(3, 100)
    codes = codec.encode_features(features)
    errors = [
        np.square((codec.decode_features(codes[:layers]) - features) * codec.weights).mean()
        for layers in (1, 2, 3)
    ]
    assert errors[0] > 1.02 * errors[1] > 1.04 * errors[2]


def test_the_first_layer_alone_may_come_without_its_axis(codec: ResidualTinyCodec) -> None:
    codes = codec.encode_features(tokens(4, 5))
    assert (codec.decode_features(codes[0]) == codec.decode_features(codes[:1])).all()
    assert (codec.codebook == codec.entries[0]).all()


def test_sums_of_entries_encode_to_themselves() -> None:
    """A second layer much finer than the first: greedy residual coding is then exact."""
    rng = np.random.default_rng(0)
    scale = np.array([1.0, 0.05])[:, None, None]
    entries = (rng.normal(size=(2, 8, tiny.TOKEN_FEATURES)) * scale).astype(np.float32)
    codec = ResidualTinyCodec(entries, np.full(27, 2.0, dtype=np.float32))
    codes = rng.integers(8, size=(2, 40))
    assert (codec.encode_features(codec.decode_features(codes)) == codes).all()


def test_saved_and_loaded_codec_is_the_same(codec: ResidualTinyCodec, tmp_path: Path) -> None:
    codec.save(tmp_path)
    loaded = load_codec("tiny_residual", tmp_path)
    assert isinstance(loaded, ResidualTinyCodec)
    assert (loaded.entries == codec.entries).all()
    assert (loaded.weights == codec.weights).all()


def test_mistakes_are_named(codec: ResidualTinyCodec, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="4 layers; the codec has 3"):
        codec.decode_features(np.zeros((4, 2), dtype=np.int64))
    tiny.TinyCodec(codec.codebook, codec.weights).save(tmp_path)
    with pytest.raises(ValueError, match="no codebooks of 3 dimensions"):
        ResidualTinyCodec.load(tmp_path)


def test_empty_and_short_waves(codec: ResidualTinyCodec) -> None:
    assert codec.encode(np.zeros(639, dtype=np.float32)).shape == (3, 0)
    assert codec.decode(np.zeros((3, 0), dtype=np.int64)).shape == (0,)
