"""Word boundaries from Flite's segments, and the cut around them."""

import shutil

import numpy as np
import pytest

from speculative_tts.codecs import world
from speculative_tts_makers.corpora.features import MARGIN_SECONDS, trim
from speculative_tts_makers.corpora.flite import SpokenPhrase, speak, word_times

SEGMENTS = [("pau", 0.2), ("w", 0.3), ("ah", 0.4), ("n", 0.5), ("t", 0.6), ("uw", 0.8), ("pau", 1)]


def test_words_end_with_their_last_phone() -> None:
    assert word_times(SEGMENTS, [3, 2]) == (0.2, (0.5, 0.8))


def test_a_pause_inside_belongs_to_no_phone() -> None:
    paused = [*SEGMENTS[:4], ("pau", 0.55), *SEGMENTS[4:]]
    assert word_times(paused, [3, 2]) == (0.2, (0.5, 0.8))


def test_wrong_phone_counts_are_an_error() -> None:
    with pytest.raises(ValueError, match="5 phones spoken, 4 expected"):
        word_times(SEGMENTS, [2, 2])


@pytest.mark.parametrize("phase", [0, 1, 2, 3])
def test_trimming_keeps_whole_tokens_and_the_timing(phase: int) -> None:
    frames = world.WorldFrames(np.arange(100.0), np.ones((100, 513)), np.ones((100, 513)))
    utterance = SpokenPhrase(np.zeros(16000, dtype=np.float32), 0.2, (0.5, 0.8))
    cut = trim(frames, utterance, phase)
    first = round((0.2 - MARGIN_SECONDS) * 100) - phase
    assert cut.frames.f0[0] == first
    assert len(cut.frames.f0) % 4 == 0
    assert cut.start == pytest.approx((0.2 - first / 100) * 25)
    assert cut.word_ends[-1] - cut.start == pytest.approx(0.6 * 25)
    assert abs(first + len(cut.frames.f0) - 100 * (0.8 + MARGIN_SECONDS)) <= 2


@pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed")
def test_flite_speaks_with_boundaries_inside_the_wave() -> None:
    utterance = speak(("alpha", "nine"), "slt", 1.0)
    assert 0 < utterance.start < utterance.word_ends[0] < utterance.word_ends[1]
    assert utterance.word_ends[1] <= len(utterance.wave) / world.SAMPLE_RATE
    slow = speak(("alpha", "nine"), "slt", 1.5)
    assert len(slow.wave) > 1.3 * len(utterance.wave)
