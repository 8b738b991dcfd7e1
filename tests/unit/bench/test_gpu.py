"""sst-bench gpu=true: what it does on a GPU, tried in little on a CPU, and what it says without."""

from pathlib import Path
from typing import Any

import pytest
import torch
from test_sizes import SMALL

from speculative_tts.bench import gpu
from speculative_tts.commands import bench
from speculative_tts.decoding.loops.graphs import Capture
from speculative_tts.schema.bench import BenchConfig

CPU = torch.device("cpu")


def config() -> BenchConfig:
    return bench.main.compose(["tokens=12", "lookahead=3"])


def test_without_a_gpu_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert bench.main(["gpu=true", f"out={tmp_path}"]) == 2
    said = capsys.readouterr().err.strip()
    assert said.count("\n") == 0
    assert "gpu=true needs a GPU that torch can see" in said


def test_every_row_is_measured() -> None:
    """Graphs are asked for where they are on; the table has each row."""
    captured = []

    def capture(step: Any) -> Any:
        captured.append(step)
        return step

    captures: dict[str, Capture | None] = {"on": capture, "off": None}
    made = gpu.measured(SMALL, config(), CPU, captures, (1, 3))
    assert [(row["graphs"], row["batch"]) for row in made["speeds"]] == [
        ("on", 1), ("on", 3), ("off", 1), ("off", 3),
    ]  # fmt: skip
    assert len(captured) == 2 * 3  # batches; the target alone and two rates; kept between runs
    result = {
        "sizes": {"small": made},
        "parity": {"float32": 0.0, "bfloat16": 0.01},
        "bytes_per_second": 1e9,
        "tokens": 12,
        "lookahead": 3,
        "provenance": {},
    }
    assert gpu.table(result).count("| CosyVoice 2 |") == 4


def test_a_coin_passes_as_often_as_it_says() -> None:
    uniforms = torch.rand(4000, 5, 2, generator=torch.Generator().manual_seed(0))
    laws = torch.full((4000, 5, 3), 1 / 3)
    for rate in gpu.RATES:
        passed = gpu.Coin(rate).accept(laws, laws, torch.zeros(4000, 5).long(), uniforms)
        assert abs(float(passed.float().mean()) - rate) < 0.02  # six standard deviations


def test_parity_of_a_machine_with_itself() -> None:
    found = gpu.parity(SMALL, 0, CPU)
    assert found["float32"] == 0
    assert 0 < found["bfloat16"] < 0.05


def test_memory_is_read() -> None:
    assert 1e8 < gpu.bandwidth(CPU, 1 << 22) < 1e13
