"""Targets by configuration alone: a voice as global codes, no codec; mistakes in one line."""

import json
from pathlib import Path

import numpy as np
import pytest
from run_records import records

from speculative_tts.codecs.audio import read_wave
from speculative_tts.codecs.registry import load_codec
from speculative_tts.commands import decode, speak
from speculative_tts.decoding.model_cache import process_cache

GOLDEN = Path(__file__).parents[1] / "golden" / "rows"
ORPHEUS = [
    "target=orpheus",
    f"target.path={GOLDEN / 'orpheus' / 'model'}",
    "target.rows.count=112",
    f"codec.path={GOLDEN / 'snac'}",
    "runtime.warmup=0",
]
CODES = {"n_codes": 96, "token_rate": 50.0, "sample_rate": 16_000}


def spark(place: Path, *rows: dict[str, object]) -> list[str]:
    """Settings of a run over these rows, by a codec that makes no audio."""
    (place / "codes").mkdir(exist_ok=True)
    (place / "codes" / "codes.json").write_text(json.dumps(CODES))
    path = place / "list.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [
        "target=spark",
        f"target.path={GOLDEN / 'spark' / 'model'}",
        *("target.rows.count=96", "target.rows.max_length=300", "target.rows.max_tokens=25"),
        *(f"codec.path={place / 'codes'}", "draft=itself", "drafter=lookup"),
        *(f"data.path={path}", f"out={place / 'runs'}", "runtime.warmup=0", "instrument=0"),
    ]


def test_without_a_codec_codes_are_kept_and_waves_are_silent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A process says once that a codec makes no audio: a test before this one had loaded it."""
    process_cache.cache_clear()
    row = {"id": "u", "text": "Stay.", "voice_codes": [*range(32)]}
    assert decode.main([*spark(tmp_path, row), "rule=exact"]) == 0
    assert "makes no audio: records.jsonl keeps the codes" in caplog.text
    (made,) = records(tmp_path / "runs")
    assert max(made["codes"]) < 96
    (audio,) = (tmp_path / "runs").glob(f"speculative-exact-*/{made['audio']}")
    assert not read_wave(audio, 16_000).any()
    assert made["prompt_audio"] == ""


def test_a_recording_needs_the_targets_own_codec(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audio = str(Path(__file__).parent / "none.wav")
    row = {"id": "u", "text": "Stay.", "prompt_audio": audio, "voice_codes": [*range(32)]}
    assert decode.main([*spark(tmp_path, row), "method=target"]) == 2
    assert "audio of 1 of 1 rows is missing: u" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"encodes no recording \(3 samples\); leave prompt_audio"):
        load_codec("codes", tmp_path / "codes").encode(np.zeros(3, dtype=np.float32))


def test_a_target_that_follows_a_recording_wants_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "list.jsonl"
    path.write_text('{"id": "u", "text": "alpha seven"}\n')
    assert decode.main([f"data.path={path}", f"out={tmp_path}", "method=target"]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "row u: prompt_audio is missing, and this target follows a recording; give one" in error


def test_a_known_speaker_speaks_and_others_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [*ORPHEUS, "text=Stay.", f"out={tmp_path / 'x.wav'}", "target.rows.max_tokens=30"]
    assert speak.main([*given, "prompt=leo"]) == 0
    assert (tmp_path / "x.wav").is_file()
    assert speak.main([*given, "prompt=slt"]) == 2
    assert "speaker 'slt' is not known to the target" in capsys.readouterr().err
    wave = (tmp_path / "x.wav").rename(tmp_path / "voice.wav")
    assert speak.main([*given, f"prompt={wave}"]) == 2
    assert "is a recording, and Orpheus-3B speaks as one of the" in capsys.readouterr().err
