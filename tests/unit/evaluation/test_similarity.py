import dataclasses
from pathlib import Path

import numpy as np
import pytest

from speculative_tts.evaluation.audio import load_wave
from speculative_tts.evaluation.judges import dnsmos, ge2e
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.similarity import cosine

SAME = ("237_134493_000015_000004", "237_126133_000029_000000")
OTHER = "1089_134686_000032_000008"
RESEMBLYZER = (0.7998313, 0.6242996, 0.5303958)  # cosines of the three clips
FIRST_SIX = [0.00062, 0.0, 0.07126, 0.0, 0.0, 0.01544]  # of the first clip's embedding
P808 = dict(zip((*SAME, OTHER), (3.5878093, 3.6331167, 3.8485012), strict=True))


def test_same_speaker_is_nearer_and_numbers_are_resemblyzers(speech: Path) -> None:
    """Expected cosines: Resemblyzer 0.1.4 itself, volume raised, without its silence trimming."""
    embed = ge2e.load_encoder()
    a, b, c = (np.array(embed(load_wave(speech / f"{key}.flac"))) for key in (*SAME, OTHER))
    assert np.linalg.norm(a) == pytest.approx(1.0, abs=1e-5)
    assert cosine(a, b) == pytest.approx(RESEMBLYZER[0], abs=1e-4)
    assert cosine(a, c) == pytest.approx(RESEMBLYZER[1], abs=1e-4)
    assert cosine(b, c) == pytest.approx(RESEMBLYZER[2], abs=1e-4)
    assert a[:6] == pytest.approx(FIRST_SIX, abs=1e-4)


def test_short_and_silent_waves_have_embeddings() -> None:
    embed = ge2e.load_encoder()
    for wave in (np.zeros(16_000), np.full(400, 0.1)):
        assert np.isfinite(embed(wave.astype(np.float32))).all()


def test_floor_is_the_mean_over_other_speakers() -> None:
    samples = [
        ScoreRow("a", "", "out a", "anna", prompt_audio="prompt a"),
        ScoreRow("b", "", "out b", "bert", prompt_audio="prompt b"),
        ScoreRow("c", "", "out c", "bert", prompt_audio="prompt c"),
        ScoreRow("d", "", "out d", "dora"),
    ]
    measured = {
        "out a": [1.0, 0.0],
        "out b": [0.0, 1.0],
        "out c": None,
        "out d": [1.0, 0.0],
        "prompt a": [1.0, 0.0],
        "prompt b": [0.6, 0.8],
        "prompt c": [0.8, 0.6],
    }
    rows = ge2e.Ge2e().score(samples, measured)
    assert rows[0] == {"similarity": 1.0, "similarity_floor": pytest.approx(0.7)}
    assert rows[1] == {"similarity": pytest.approx(0.8), "similarity_floor": 0.0}
    assert rows[2] == rows[3] == {"similarity": None, "similarity_floor": None}


def test_a_voice_without_length_has_no_cosine() -> None:
    """It was NaN, which stood in scores.jsonl."""
    samples = [ScoreRow("a", "", "out", "anna", prompt_audio="prompt")]
    rows = ge2e.Ge2e().score(samples, {"out": [0.0, 0.0], "prompt": [1.0, 0.0]})
    assert rows == [{"similarity": None, "similarity_floor": None}]


def test_one_speaker_has_no_floor() -> None:
    samples = [ScoreRow("a", "", "out", "anna", prompt_audio="prompt")]
    rows = ge2e.Ge2e().score(samples, {"out": [1.0], "prompt": [1.0]})
    assert rows == [{"similarity": 1.0, "similarity_floor": None}]


def test_dnsmos_is_speechmos(speech: Path) -> None:
    """Expected: p808_mos of speechmos 0.0.1.1 on the same samples."""
    measure = dnsmos.Dnsmos().load()
    for key, expected in P808.items():
        assert measure(load_wave(speech / f"{key}.flac")) == pytest.approx(expected, abs=2e-5)


def test_overlapping_windows_are_those_cut_out_one_by_one() -> None:
    """Frames are shared: only those at a window's ends see the silence around it."""
    wave = np.random.default_rng(0).uniform(-1, 1, 16_000 * 4).astype(np.float32)
    played = np.tile(wave, 4)
    shared = dnsmos.windows(wave)
    assert shared.shape == (7, 900, 120)
    for second, window in enumerate(shared):
        cut = played[second * 16_000 :][:144_000]
        assert window == pytest.approx(dnsmos.log_mel(dnsmos.mels(cut)), abs=1e-6)


def test_judges_name_their_weights() -> None:
    assert len(ge2e.Ge2e().options["weights_sha256"]) == 12
    assert len(dnsmos.Dnsmos().options["model_sha256"]) == 12
    assert dataclasses.is_dataclass(dnsmos.Dnsmos)
