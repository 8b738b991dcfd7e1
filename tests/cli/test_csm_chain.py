"""A talker by the commands: decoded with and without drafts, its codes counted; what it has not."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from csm_folders import GOLDEN
from run_records import records

from speculative_tts.codecs.audio import read_wave, wav_bytes
from speculative_tts.commands import bench, decode, train_draft, train_heads

MODEL = GOLDEN / "model"
TALKER = ["target=csm", f"target.path={MODEL}", f"codec.path={MODEL}"]


def settings(place: Path) -> list[str]:
    """Settings of a run over two rows, one of which follows a recording."""
    wave = 0.1 * np.random.default_rng(0).standard_normal(24_000).astype(np.float32)
    (place / "voice.wav").write_bytes(wav_bytes(wave, 24_000))
    rows = [
        {"id": "plain", "text": "Nine boats."},
        {"id": "voiced", "text": "Stay.", "prompt_audio": "voice.wav", "prompt_text": "The tide."},
    ]
    path = place / "list.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = [f"data.path={path}", f"out={place / 'runs'}", "runtime.warmup=0", "draft=itself"]
    return [*TALKER, *run, "timing=1", "instrument=1"]


def test_frames_are_counted_and_heard(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without drafts every code is a step; with them fewer rounds make as many codes."""
    given = settings(tmp_path)
    assert decode.main([*given, "method=target"]) == 0
    assert "Loading weights" not in capfd.readouterr().err  # transformers' bar, of its Mimi
    assert decode.main([*given, "rule=exact", "drafter=codebooks", "lookahead=3"]) == 0
    assert decode.main([*given, "rule=exact", "drafter=lookup", "lookahead=3"]) == 0
    assert decode.main([*given, "rule=group", "rule.groups.mean_size=2", "drafter=codebooks"]) == 0
    names = ("target-*", "*-exact-k3-codebooks-plain-*", "*-exact-k3-lookup-*", "*-group-*")
    for name in names:
        made = records(tmp_path / "runs", name)
        assert [row["id"] for row in made] == ["plain", "voiced"]
        for row in made:
            codes = np.array(row["codes"]).reshape(-1, 6)
            assert (codes // 19 == np.arange(6)).all()
            assert (row["frames"], row["codebooks"]) == (len(codes), 6)
            heard = int((codes % 19 < 16).all(1).sum())  # a frame with another code has no sound
            assert row["audio_seconds"] == pytest.approx(0.08 * heard or 0.1)
    (first, _) = records(tmp_path / "runs", names[1])
    assert 0 < first["accepted"] < first["drafted"]
    assert first["rounds"] == first["tokens"] - 1 - first["accepted"]


def test_without_mimi_codes_are_kept_and_waves_are_silent(tmp_path: Path) -> None:
    (tmp_path / "codes.json").write_text('{"n_codes": 114, "token_rate": 75, "sample_rate": 24000}')
    given = settings(tmp_path)
    (tmp_path / "list.jsonl").write_text('{"id": "plain", "text": "Nine boats."}\n')
    codes = ["codec.name=codes", f"codec.path={tmp_path}"]
    assert decode.main([*given, *codes, "method=target"]) == 0
    (made,) = records(tmp_path / "runs", "target-*")
    assert len(made["codes"]) == 54
    (audio,) = (tmp_path / "runs").glob("target-*/audio/plain.wav")
    assert not read_wave(audio, 24_000).any()


REFUSED = {
    "a frame or more": (
        ["rule=exact", "drafter=codebooks", "lookahead=6"],
        "lookahead 6 is a frame of 6 codes or more, and a draft may reach into the next frame",
    ),
    "heads": (
        ["rule=exact", "drafter=heads", "heads.path=.", "viterbi.mode=none"],
        "heads of one model draft no target with a depth decoder; give drafter=codebooks",
    ),
    "blocks of heads": (
        ["method=mtp", "heads.path=.", "viterbi.mode=none"],
        "heads of one model draft no target with",
    ),
    "a layer": (["rule=exact", "drafter=recurrent", "drafter.path=."], "which .* is not fed"),
    "uncached": (["method=uncached"], "a target with a depth decoder is never uncached; give"),
    "a stream": (["method=target", "chunk=6"], "MimiCodec makes waves of whole utterances only"),
    "a least length": (
        ["method=target", "sampling.min_tokens_per_word=1"],
        "sampling.min_tokens_per_word 1 is above 0, and this target ends by a frame of codes",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_talker_has_not_is_refused_in_a_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked, message = REFUSED[name]
    assert decode.main([*settings(tmp_path), *asked]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("sst-decode: error: ")
    assert re.search(message, error)
    assert not any(path.read_text() for path in (tmp_path / "runs").glob("*/records.jsonl"))


def test_a_recording_needs_its_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bug: a row with a recording and no prompt_text was decoded in silence, its turn empty."""
    given = settings(tmp_path)
    row = {"id": "mute", "text": "Stay.", "prompt_audio": "voice.wav"}
    (tmp_path / "list.jsonl").write_text(json.dumps(row) + "\n")
    assert decode.main([*given, "method=target"]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "row mute: the recording has no words (prompt_text), and this target reads" in error


def test_the_benchmark_refuses_a_talker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bug: sst-bench timed its steps on an empty cache, and ended in an AttributeError."""
    assert bench.main([*settings(tmp_path)[:4], f"out={tmp_path / 'bench'}"]) == 2
    assert "has a depth decoder, whose steps sst-bench does not time" in capsys.readouterr().err


def test_other_targets_have_no_codebooks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [f"out={tmp_path}", "limit=1", "rule=exact", "drafter=codebooks"]
    assert decode.main(given) == 2
    assert "drafts the codes of a frame by a depth decoder, which" in capsys.readouterr().err


def test_trainers_of_one_model_say_what_a_talker_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = [*TALKER[:2], f"codes={tmp_path}", f"out={tmp_path / 'out'}"]
    (tmp_path / "train-0000.parquet").touch()
    assert train_heads.main([*codes, "kind=linear"]) == 2
    assert "sst-train-heads kind=codebooks alone trains a drafter" in capsys.readouterr().err
    assert train_draft.main(codes) == 2
    assert "sst-train-heads kind=codebooks alone trains a drafter" in capsys.readouterr().err
