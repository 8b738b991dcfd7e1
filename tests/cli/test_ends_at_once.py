"""A target that ends its utterances at once: runs finish, are scored, and that is counted."""

import csv
import json
from pathlib import Path

import pytest
import soundfile
import torch
from fake_models import write_fake_models
from torch import Tensor

from speculative_tts.commands.decode import main as decode
from speculative_tts.commands.eval import main as evaluate
from speculative_tts.commands.report import main as report
from speculative_tts.decoding.sampling.sampler import Sampler, StopRule


def ends(
    self: Sampler, logits: Tensor, history: Tensor, positions: Tensor, stop: StopRule
) -> Tensor:
    """The law of a model that is sure of the end."""
    return stop.is_stop.to(logits.dtype).expand_as(logits)


@pytest.mark.whole
def test_runs_without_a_code_finish_and_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The wave of no codes had no samples: players and some judges refuse such files."""
    models = write_fake_models(tmp_path / "models", utterances=2)
    runs = tmp_path / "runs"
    own = ["runtime.kernels=torch", "runtime.warmup=0", "instrument=0"]  # calls the sampler below
    common = [*models.overrides, f"out={runs}", *own]
    caches = [f"rule.groups.cache={tmp_path / 'caches'}"]
    monkeypatch.setattr(Sampler, "__call__", ends)
    for system in ("target", "draft", "exact", "ssd", "pcg", "swap"):
        groups = caches if system in {"pcg", "swap"} else []
        assert decode([*common, f"method={system}", *groups]) == 0, system
    for path in runs.glob("*/records.jsonl"):
        for row in map(json.loads, path.read_text().splitlines()):
            wave, rate = soundfile.read(path.parent / row["audio"])
            assert (row["codes"], len(wave), abs(wave).max()) == ([], rate // 10, 0.0)
    capsys.readouterr()
    assert evaluate([f"runs={runs}", "workers=1", "draws=10"]) == 0
    table = capsys.readouterr().out
    assert table.count("2 (2 without speech)") == 6
    assert "nan" not in table
    assert report([f"runs={runs}", f"out={tmp_path / 'results'}", "paper=ssd", "page=false"]) == 0
    text = " ".join((tmp_path / "results/ssd/table1.md").read_text().split())
    assert "Ended at once, heard as 0.1 s of silence: 2 of draft-s0, 2 of target-s0, 2 of" in text
    with (tmp_path / "results/ssd/table1.csv").open() as file:
        assert {row["wer"] for row in csv.DictReader(file) if row["wer"]} == {"100"}
    assert torch.isfinite(torch.tensor(figures(runs))).all()


def figures(runs: Path) -> list[float]:
    """Every figure of every summary."""
    summaries = [json.loads(path.read_text()) for path in runs.glob("*/summary.json")]
    values = [one["value"] for summary in summaries for one in summary["metrics"].values()]
    return [float(value) for value in values if value is not None]
