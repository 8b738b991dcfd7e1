"""Audio files as codecs and judges read them."""

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from speculative_tts.assets import resolve
from speculative_tts.codecs.audio import (
    EDGE,
    UnfitWaveError,
    WaveWriter,
    is_silent,
    read_wave,
    readable,
    wav_bytes,
    without_edges,
)
from speculative_tts.evaluation.audio import flags_of, load_wave
from speculative_tts.listening.sound import load
from speculative_tts.records import read_list


def test_channels_are_averaged_and_another_rate_is_resampled(tmp_path: Path) -> None:
    wave = 0.5 * np.sin(np.arange(32_000) * 2 * np.pi * 200 / 32_000)
    soundfile.write(tmp_path / "a.wav", np.stack([wave, np.zeros_like(wave)], 1), 32_000)
    read = read_wave(tmp_path / "a.wav", 16_000)
    assert read.shape == (16_000,)
    np.testing.assert_allclose(read[200:-200], wave[400:-400:2] / 2, atol=1e-3)
    np.testing.assert_array_equal(read, load_wave(tmp_path / "a.wav"))


def test_samples_too_loud_are_clipped(tmp_path: Path) -> None:
    wave = np.array([2.0, -3.0, 0.25], dtype=np.float32)
    soundfile.write(tmp_path / "a.wav", wave, 16_000, subtype="FLOAT")
    assert read_wave(tmp_path / "a.wav", 16_000).tolist() == [1.0, -1.0, 0.25]


HUM = np.sin(np.arange(16_000) / 20)
UNFIT = {
    "empty": (np.zeros(0), 8_000, "holds no samples"),
    # 16-bit samples stored as floats were clipped to a square wave without a word
    "whole numbers": (3000 * HUM, 16_000, "samples of 3000, and full scale is 1; divide them"),
    # ten samples at 1 Hz were a voice prompt of ten seconds
    "no rate of speech": (HUM[:10], 1, r"a\.wav has 1 samples a second, below 4,000; give"),
    # they were zeros in silence: a voice prompt of NaN was a silent one
    "NaN": (np.array([0.5, np.nan]), 16_000, "a.wav holds samples that are NaN or infinite; give"),
    "infinite": (np.array([0.5, np.inf]), 16_000, "holds samples that are NaN or infinite; give"),
    # their mean was silence, scored as such
    "channels that cancel": (
        np.stack([HUM / 2, -HUM / 2], 1),
        16_000,
        r"a\.wav cancel each other out; give .* one channel",
    ),
}
UNREAD = ("empty", "no rate of speech")  # faults of the file; a list leaves out unfit recordings


@pytest.mark.parametrize("kind", UNFIT)
def test_a_wave_that_is_no_voice_is_refused(kind: str, tmp_path: Path) -> None:
    wave, rate, why = UNFIT[kind]
    soundfile.write(tmp_path / "a.wav", wave, rate, subtype="FLOAT")
    with pytest.raises(ValueError, match=why) as caught:
        read_wave(tmp_path / "a.wav", 16_000)
    assert (caught.type is UnfitWaveError) == (kind not in UNREAD)


def test_silence_and_nothing_are_read_by_judges(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(0), 8_000)
    assert len(load_wave(tmp_path / "a.wav")) == 0
    soundfile.write(tmp_path / "b.wav", np.zeros((16_000, 2)), 16_000)
    assert not read_wave(tmp_path / "b.wav", 16_000).any()


@pytest.mark.parametrize("level", [0.0, 0.5, 1.0])
def test_a_constant_voltage_is_silence(level: float) -> None:
    """Full-scale DC was a voice to follow, and audio to judge."""
    wave = np.full(16_000, level, dtype=np.float32)
    assert is_silent(wave)
    assert flags_of(wave) == ["silent_audio"]
    assert not is_silent(wave + 0.001 * np.sin(np.arange(16_000), dtype=np.float32))


def test_judges_read_a_path_given_as_text(tmp_path: Path) -> None:
    """`load_wave("a.wav")` ended in an AttributeError."""
    soundfile.write(tmp_path / "a.wav", np.zeros(500), 16_000)
    assert len(load_wave(str(tmp_path / "a.wav"))) == 500


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_audio_is_written_of_samples_that_are_no_numbers(value: float) -> None:
    """16 bits have no NaN: it became some sample or another."""
    wave = np.array([0.5, value], dtype=np.float32)
    with pytest.raises(ValueError, match="the codec gave samples that are NaN or infinite"):
        wav_bytes(wave, 16_000)
    with pytest.raises(ValueError, match="the codec gave samples that are NaN or infinite"):
        WaveWriter(io.BytesIO(), 16_000).write(wave)


@pytest.mark.parametrize(("content", "message"), [(b"RIFF", "not readable"), (None, "not found")])
def test_what_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "a.wav").write_bytes(content)
    for read in (load_wave, lambda path: read_wave(path, 16_000)):
        with pytest.raises(ValueError, match=message):
            read(tmp_path / "a.wav")


def test_edges_are_cut_to_what_models_were_trained_on() -> None:
    said = np.sin(np.arange(8_000)).astype(np.float32)
    said[3_000:4_000] = 0  # a pause stays
    quiet = (1e-3 * np.random.default_rng(0).standard_normal(16_000)).astype(np.float32)
    edge = round(EDGE * 16_000)
    whole = np.concatenate([quiet, said, quiet])
    cut = without_edges(whole, 16_000)
    np.testing.assert_array_equal(cut, whole[16_000 - edge : 24_000 + edge])
    np.testing.assert_array_equal(without_edges(cut, 16_000), cut)
    np.testing.assert_array_equal(without_edges(said, 16_000), said)


@pytest.mark.parametrize("samples", [0, 100, 5_000])
def test_what_is_silent_all_over_stays(samples: int) -> None:
    assert len(without_edges(np.zeros(samples, np.float32), 16_000)) == samples


def test_shipped_prompts_have_no_edges_to_cut() -> None:
    for item in read_list(resolve("tiny:testset/list.jsonl"))[::8]:
        wave = read_wave(Path(item.prompt_audio), 16_000)
        np.testing.assert_array_equal(without_edges(wave, 16_000), wave)


def test_the_rate_of_what_is_no_audio_is_refused_by_name(tmp_path: Path) -> None:
    """sst-listen ended in libsndfile's traceback."""
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    for name, fault in {"a.wav": "is not readable audio", "b.wav": "not found"}.items():
        with pytest.raises(ValueError, match=rf"{name} {fault}"):
            load(tmp_path / name)


def test_a_wav_that_was_cut_is_told_from_a_stream(tmp_path: Path) -> None:
    """A file cut in mid-copy was read short without a word: 6,652 of 16,000 samples."""
    whole = tmp_path / "whole.wav"
    soundfile.write(whole, np.full(16_000, 0.1, dtype=np.float32), 16_000)
    data = whole.read_bytes()
    cut, stream = tmp_path / "cut.wav", tmp_path / "stream.wav"
    cut.write_bytes(data[:13_348])
    place = data.index(b"data") + 4
    stream.write_bytes(data[:place] + b"\xff" * 4 + data[place + 4 : 13_348])
    assert len(read_wave(whole, 16_000)) == 16_000
    assert len(read_wave(stream, 16_000)) == (13_348 - place - 4) // 2
    with pytest.raises(ValueError, match=r"cut\.wav is cut short: .* 18696 bytes .* copy or rec"):
        read_wave(cut, 16_000)
    assert [readable(path) for path in (whole, cut, stream)] == [True, False, True]
