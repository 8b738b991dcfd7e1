"""The tiny codec: shapes, storage, errors and what survives the round trip."""

import numpy as np
import pytest

from speculative_tts.codecs import tiny, world
from speculative_tts.codecs.tiny import TinyCodec, nearest, stack_frames
from speculative_tts_makers.corpora.codec_training import train_codec


def voice(seconds: float, pitch: float) -> world.Wave:
    """A buzz with two resonances: enough of a voice for WORLD."""
    time = np.arange(int(seconds * world.SAMPLE_RATE)) / world.SAMPLE_RATE
    harmonics = np.arange(1, int(7000 / pitch))
    level = 1 / (1 + ((harmonics * pitch - 600) / 300) ** 2) + 0.05
    wave = (level[:, None] * np.sin(2 * np.pi * harmonics[:, None] * pitch * time)).sum(axis=0)
    return (0.3 * wave / np.abs(wave).max()).astype(np.float32)


@pytest.fixture(scope="module")
def codec() -> TinyCodec:
    features = [world.frame_features(world.analyse(voice(0.8, pitch))) for pitch in (100, 150, 220)]
    return train_codec(features, n_codes=16, iterations=5, seed=1)


def test_a_token_is_640_samples_both_ways(codec: TinyCodec) -> None:
    wave = voice(0.5, 120)[: 11 * 640]
    codes = codec.encode(wave)
    assert codes.shape == (11,)
    assert codes.dtype == np.int64
    assert codec.decode(codes).shape == (11 * 640,)
    assert codec.decode(codes).dtype == np.float32


def test_pitch_survives_the_round_trip(codec: TinyCodec) -> None:
    decoded = codec.decode(codec.encode(voice(0.8, 150)))
    f0 = world.analyse(decoded).f0[10:-10]
    assert np.median(f0) == pytest.approx(150, rel=0.03)


def test_codebook_entries_encode_to_themselves() -> None:
    rng = np.random.default_rng(0)
    entries = rng.normal(size=(16, tiny.TOKEN_FEATURES)).astype(np.float32)
    codec, codes = TinyCodec(entries, np.full(27, 2.0, dtype=np.float32)), np.arange(16)
    assert (codec.encode_features(codec.decode_features(codes)) == codes).all()


def test_empty_and_short_waves(codec: TinyCodec) -> None:
    assert codec.encode(np.zeros(639, dtype=np.float32)).shape == (0,)
    assert codec.decode(np.zeros(0, dtype=np.int64)).shape == (0,)


def test_stop_tokens_are_refused(codec: TinyCodec) -> None:
    with pytest.raises(ValueError, match="drop stop tokens"):
        codec.decode(np.array([0, 16]))
    with pytest.raises(ValueError, match="mono"):
        codec.encode(np.zeros((2, 1000), dtype=np.float32))


def test_nearest_is_the_brute_force_answer() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(50, 108)).astype(np.float32)
    codebook = rng.normal(size=(9, 108)).astype(np.float32)
    distances = np.square(vectors[:, None] - codebook[None]).sum(axis=2)
    assert (nearest(vectors, codebook) == distances.argmin(axis=1)).all()


def test_stacking_drops_incomplete_tokens() -> None:
    features = np.arange(10 * 27, dtype=float).reshape(10, 27)
    stacked = stack_frames(features, np.ones(27, dtype=np.float32))
    assert stacked.shape == (2, tiny.TOKEN_FEATURES)
    assert stacked[1, 0] == features[4, 0]
