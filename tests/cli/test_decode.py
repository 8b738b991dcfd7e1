"""sst-decode as a user runs it, on random little models."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from fake_models import N_CODES, WORDS, FakeModels, write_fake_models
from run_records import records
from safetensors.torch import load_file, save_file

from speculative_tts.commands import decode
from speculative_tts.decoding import builder as parts
from speculative_tts.files import held
from speculative_tts.records import read_jsonl, write_jsonl
from speculative_tts.runs.naming import run_name


def only(folder: Path, pattern: str = "*") -> Path:
    (found,) = folder.glob(pattern)
    return found


def test_a_sweep_makes_a_run_folder_per_point_and_is_skipped_when_done(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        *models.overrides,
        f"out={tmp_path}",
        "rule=tolerance",
        "rule.beta=0,0.4",
        "limit=2",
    ]
    assert decode.main(arguments) == 0
    folders = sorted(path.name for path in tmp_path.glob("speculative-*"))
    assert [name.rsplit("-", 1)[0] for name in folders] == [
        "speculative-tolerance-b0-k3-s0",
        "speculative-tolerance-b0.4-k3-s0",
    ]
    run = only(tmp_path, "*b0.4*")
    rows = records(tmp_path, "*b0.4*")
    assert [row["id"] for row in rows] == ["u0", "u3"]  # limit spreads over the list
    assert all((run / str(row["audio"])).stat().st_size > 44 for row in rows)
    assert all(
        row["tokens"] == 1 + row["accepted"] + row["residuals"] + row["bonuses"] for row in rows
    )
    config = json.loads((run / "config.json").read_text())
    assert config["system"] == "speculative"
    assert config["sampling"]["top_k"] == 25  # the checkpoint's own, written out
    before = (run / "records.jsonl").stat().st_mtime_ns
    capsys.readouterr()
    assert decode.main(arguments) == 0
    assert capsys.readouterr().out.count("done already, skipped") == 2
    assert (run / "records.jsonl").stat().st_mtime_ns == before


def test_a_run_ends_with_what_it_found(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Speed and acceptance are of its own records, before anybody has scored them."""
    told = [*models.overrides, f"out={tmp_path}", "runtime.warmup=0", "instrument=0"]
    assert decode.main([*told, "method=ssd", "chunk=4"]) == 0
    where, found, following = capsys.readouterr().out.splitlines()
    assert where.startswith(f"{tmp_path}/speculative-tolerance-b0.4-k3-s0-")
    assert re.search(r"^  \d+\.\d\d times the target alone on this machine \(6 utter", found)
    rows = records(tmp_path)
    drafted, accepted = np.sum([(row["drafted"], row["accepted"]) for row in rows], axis=0)
    assert f"accepted {accepted / drafted:.3f} of the drafted tokens, " in found
    assert "tokens a round, first audio after " in found
    assert following == f"  next: sst-eval runs={tmp_path}"
    assert decode.main([*told, "method=codec"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2  # no model ran: nothing was found


def test_a_model_that_breaks_down_costs_its_utterances_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It once ended the run with an IndexError. Here one word is NaN, which u2 and u5 say."""
    models = write_fake_models(tmp_path / "models")
    weights = tmp_path / "models" / "target" / "model.safetensors"
    state = load_file(weights)
    state["model.embed_tokens.weight"][N_CODES + 1 + WORDS.index("one")] = float("nan")
    save_file(state, weights, metadata={"format": "pt"})
    arguments = [*models.overrides, f"out={tmp_path / 'runs'}", "batch_size=3", "timing=2"]
    for _ in range(2):  # the second time the failed ones are tried again
        assert decode.main(arguments) == 1
        run = only(tmp_path / "runs", "spec*")
        assert not (run / "DONE").exists()
        made = records(tmp_path / "runs", "spec*")
        assert [row["id"] for row in made] == ["u0", "u1", "u3", "u4"]
        assert [row["id"] for row in read_jsonl(run / "failed.jsonl")] == ["u2", "u5"]
        told = capsys.readouterr().err.splitlines()[-1]
        assert "2 of 6 utterances failed" in told
        assert ": no law for token 0: logits are NaN or infinite" in told


def test_a_prompt_without_a_voice_costs_its_utterances_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One such prompt refused the whole list; a list of such prompts alone is refused still."""
    models = write_fake_models(tmp_path / "models")
    rows = list(read_jsonl(models.root / "list.jsonl"))
    unfit = {"u1": np.zeros(16_000), "u4": np.full(16_000, np.nan)}
    for row in rows:
        if row["id"] in unfit:
            row["prompt_audio"] = f"{row['id']}.wav"
            soundfile.write(models.root / row["prompt_audio"], unfit[row["id"]], 16_000, "FLOAT")
    write_jsonl(models.root / "list.jsonl", rows)
    arguments = [*models.overrides, f"out={tmp_path / 'runs'}", "batch_size=2"]
    for _ in range(2):
        assert decode.main(arguments) == 1
        run = only(tmp_path / "runs", "spec*")
        made = records(tmp_path / "runs", "spec*")
        assert [row["id"] for row in made] == ["u0", "u2", "u3", "u5"]
        failed = {row["id"]: row["error"] for row in read_jsonl(run / "failed.jsonl")}
        assert "u1.wav is silent: it has no voice to follow; give" in failed["u1"]
        assert "u4.wav holds samples that are NaN or infinite; give another" in failed["u4"]
        assert "2 of 6 utterances failed" in capsys.readouterr().err.splitlines()[-1]
    write_jsonl(models.root / "list.jsonl", [row for row in rows if row["id"] in unfit])
    assert decode.main([*models.overrides, f"out={tmp_path / 'none'}"]) == 2
    assert not (tmp_path / "none").exists()


def test_a_run_in_use_is_left_alone(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*models.overrides, f"out={tmp_path}", "limit=1"]
    config = decode.main.compose(arguments)
    with held(tmp_path / run_name(config)):
        assert decode.main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "is in use by another process; wait for it, or give out=<other folder>" in line
    assert not list(tmp_path.glob("*/records.jsonl"))


def test_a_run_of_other_code_is_skipped_and_says_so(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*models.overrides, f"out={tmp_path}", "limit=1"]
    assert decode.main(arguments) == 0
    assert decode.main(arguments) == 0
    assert "other code" not in capsys.readouterr().out
    path = only(tmp_path, "spec*") / "provenance.json"
    made = json.loads(path.read_text())
    made["code"] = {"version": "0.0.1", "commit": "abcdef0123456789", "dirty": True}
    path.write_text(json.dumps(made))
    assert decode.main(arguments) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert "done already, skipped; made by other code (version 0.0.1 commit abcdef012 with" in line
    assert "out=<new folder> makes it anew" in line


def test_systems_without_a_model_copy_and_resynthesise_the_reference(
    models: FakeModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is one loaded: LLaSA-8B would take a minute and 17 GB."""

    def load(*_: object, **__: object) -> None:
        raise AssertionError("weights are read")

    monkeypatch.setattr(parts, "load_speech_lm", load)
    monkeypatch.setattr(parts, "load_refiner", load)
    given = [*models.overrides, f"out={tmp_path}", "limit=1", "system=reference,codec"]
    assert decode.main(given) == 0
    reference, rate = soundfile.read(only(tmp_path, "reference-*") / "audio/u0.wav")
    original, _ = soundfile.read(models.root / "prompt1.wav")
    assert rate == 16_000
    assert abs(reference - original).max() < 1e-3
    (row,) = records(tmp_path, "codec-*")
    assert row["rounds"] == 0
    assert len(row["codes"]) == len(original) // 640
