"""sst-check judges: what is here and what gets the rest; the probe behind the GPU hours."""

import json
from pathlib import Path

import pytest
import torch
from experiment_points import names, points
from settings_read import read_of

from speculative_tts.commands.check import main
from speculative_tts.costs import hours
from speculative_tts.costs.hours import JOBS, Job, estimate
from speculative_tts.reporting.experiments import PAPERS_OWN
from speculative_tts.schema.decode import System
from speculative_tts.schema.evaluate import Paper

SPOKEN = {System.target, System.draft, System.speculative, System.multi_token}


def test_judges_name_their_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert main(["judges", f"models={tmp_path}"]) == 1
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "runs here" in lines["pocketsphinx-general"]
    dnsmos = " ".join(lines["dnsmos-p808"].split())  # columns are as wide as the longest preset
    assert "judges=offline, pcg, ssd, whisper runs here" in dnsmos
    assert "hf download facebook/hubert-large-ls960-ft" in lines["hubert-large-ls960-ft"]
    assert f"--local-dir {tmp_path}/judges/whisper-large-v3" in lines["whisper-large-v3"]
    assert "pip install" in lines["stt_en_conformer_transducer_large"]
    assert len(lines) >= 11


def test_hours_grow_with_layers_and_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hours, "step_seconds", lambda shape, layers, *_: 0.001 + 0.002 * layers)
    monkeypatch.setattr(hours, "head_seconds", lambda *_: 0.001)
    monkeypatch.setattr(hours, "sampler_seconds", lambda *_: 0.001)
    job = Job(Paper.ssd, JOBS[0].shape, 10, 25.0, runs=1, utterances=100)
    one = estimate(job, torch.device("cpu"), torch.float32)
    assert one.milliseconds == pytest.approx((1 + 24 * 2 + 1 + 1,) * 2)
    passes = 2 * 20 + 80 / 32  # an utterance's: 20 are timed beside the target, the others batched
    assert one.hours == pytest.approx(0.051 * passes * 6.5 * 25 / 3600)


def test_a_probe_runs_the_engine() -> None:
    assert hours.step_seconds(JOBS[0].shape, 1, 1, torch.device("cpu"), torch.float32) > 0
    assert hours.sampler_seconds(JOBS[0], 1, torch.device("cpu")) > 0


@pytest.mark.whole
@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.paper.name)
def test_runs_are_those_of_the_experiments(job: Job) -> None:
    """All points of the sweeps in which a language model speaks with its cache.

    Values of a setting that a system does not read make one run.
    """
    made = [
        {json.dumps(read_of(point)) for point in points(name) if System[point["system"]] in SPOKEN}
        for name in names(job.paper.name, PAPERS_OWN)
    ]
    assert sum(map(len, made)) == job.runs
