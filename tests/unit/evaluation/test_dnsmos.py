"""Features of audio that repeats itself until it fills a window."""

import numpy as np
import pytest

from speculative_tts.evaluation.judges import dnsmos


@pytest.mark.parametrize("samples", [2 * 160, 17 * 160, 640 * 54, 16_001, 100_000, 150_000])
def test_frames_of_one_period_are_those_of_all(
    samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit; a frame is one sample longer than its hops, which the last of a period needs."""
    wave = np.random.default_rng(samples).standard_normal(samples).astype(np.float32)
    found = dnsmos.windows(wave)
    assert found.shape[1:] == (900, 120)
    monkeypatch.setattr(dnsmos, "_repeated", lambda repeated, _: dnsmos.mels(repeated))
    assert np.array_equal(found, dnsmos.windows(wave))


def test_a_period_is_transformed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds were transformed eight times over."""
    transformed = []
    mels = dnsmos.mels
    monkeypatch.setattr(dnsmos, "mels", lambda wave: transformed.append(len(wave)) or mels(wave))
    dnsmos.windows(np.ones(32_000, dtype=np.float32))
    assert transformed[0] == 2 * 32_000 + 160
    assert max(transformed[1:]) < 1000
