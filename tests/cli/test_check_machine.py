"""sst-check judges and sst-check paper: what is here, and what gets the rest."""

from pathlib import Path

import pytest
import torch

from speculative_tts.checks import hours
from speculative_tts.checks.hours import JOBS, Job, estimate
from speculative_tts.commands.check import main


def test_judges_name_their_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert main(["judges", f"models={tmp_path}"]) == 1
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "runs here" in lines["pocketsphinx-general"]
    assert "judges=offline, ssd  runs here" in lines["dnsmos-p808"]
    assert "hf download facebook/hubert-large-ls960-ft" in lines["hubert-large-ls960-ft"]
    assert f"--local-dir {tmp_path}/judges/whisper-large-v3" in lines["whisper-large-v3"]
    assert "pip install" in lines["stt_en_conformer_transducer_large"]
    assert len(lines) >= 11


def test_paper_lists_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    models = tmp_path / "models"
    (models / "CosyVoice2-0.5B/CosyVoice-BlankEN").mkdir(parents=True)
    for name in ("llm.pt", "CosyVoice-BlankEN/config.json", "speech_tokenizer_v2.onnx"):
        (models / "CosyVoice2-0.5B" / name).touch()
    assert main(["paper", f"models={models}", "probe=false"]) == 1
    out = capsys.readouterr().out
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert lines[f"{models}/CosyVoice2-0.5B"].split()[1:] == ["SSD", "here"]
    assert "hf download HKUSTAudio/Llasa-8B" in lines[f"{models}/Llasa-8B"]
    assert "sst-train-draft recipe=cosyvoice2" in lines["runs/draft-cosyvoice2/config.json"]
    assert "sst-prepare corpus=list" in lines["data/unicats_b/list.jsonl"]
    assert " GiB" in lines["free"]
    assert "GPU memory" in out


def test_hours_grow_with_layers_and_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hours, "step_seconds", lambda shape, layers, *_: 0.001 + 0.002 * layers)
    monkeypatch.setattr(hours, "head_seconds", lambda *_: 0.001)
    job = Job("x", JOBS[0].shape, 10, 25.0, runs=1, utterances=100)
    one = estimate(job, torch.device("cpu"), torch.float32)
    assert one.milliseconds == pytest.approx(1 + 24 * 2 + 1)
    assert one.hours == pytest.approx(0.050 * 2 * 100 * 6.5 * 25 / 3600)


def test_a_probe_runs_the_engine() -> None:
    assert hours.step_seconds(JOBS[0].shape, 1, torch.device("cpu"), torch.float32) > 0
