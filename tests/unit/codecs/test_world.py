"""WORLD features and warping."""

import numpy as np
import pytest

from speculative_tts.codecs import world
from speculative_tts_makers.corpora.warp import warp


def frames(n: int = 12) -> world.WorldFrames:
    """Half voiced, half unvoiced frames with a resonance at 1 kHz."""
    f0 = np.where(np.arange(n) < n // 2, 120.0 + np.arange(n), 0.0)
    hertz = np.arange(513) * world.SAMPLE_RATE / world.FFT_SIZE
    envelope = np.exp(-(((hertz - 1000) / 400) ** 2)) + 1e-3
    aperiodicity = np.where(f0[:, None] > 0, 0.1, 1.0) * np.ones((n, 513))
    return world.WorldFrames(f0, np.tile(envelope, (n, 1)) * 1e-3, aperiodicity)


def test_warping_moves_the_resonance_and_the_pitch() -> None:
    warped = warp(frames(), formant_scale=1.2, pitch_scale=1.5)
    peak = warped.envelope[0].argmax() * world.SAMPLE_RATE / world.FFT_SIZE
    assert peak == pytest.approx(1200, abs=20)
    assert warped.f0[0] == pytest.approx(1.5 * 120.0)
    assert (warped.f0[6:] == 0).all()


def test_neutral_warp_changes_nothing() -> None:
    original, warped = frames(), warp(frames(), 1.0, 1.0)
    np.testing.assert_allclose(warped.f0, original.f0)
    np.testing.assert_array_equal(warped.envelope, original.envelope)


def test_pitch_range_keeps_the_mean() -> None:
    flat = warp(frames(), 1.0, 1.0, pitch_range=0.0)
    voiced = frames().f0[:6]
    np.testing.assert_allclose(flat.f0[:6], np.exp(np.log(voiced).mean()))


def test_features_keep_pitch_voicing_and_envelope() -> None:
    original = frames()
    features = world.frame_features(original)
    assert features.shape == (12, world.N_FEATURES)
    back = world.frames_from_features(features)
    np.testing.assert_allclose(back.f0, original.f0, rtol=1e-9)
    error = np.abs(np.log(back.envelope) - np.log(original.envelope)).mean()
    assert error < 0.3


def test_log_f0_is_divided_by_averaged_voicing() -> None:
    features = world.frame_features(frames())
    mixed = 0.8 * features[:1] + 0.2 * features[-1:]
    assert world.frames_from_features(mixed).f0[0] == pytest.approx(120.0)


def test_synthesis_has_160_samples_a_frame() -> None:
    wave = world.synthesise(frames())
    assert wave.shape == (12 * 160,)
    assert wave.dtype == np.float32
    assert np.abs(wave).max() <= 1.0
