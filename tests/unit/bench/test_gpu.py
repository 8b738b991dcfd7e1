"""sst-bench gpu=true: what it does on a GPU, tried in little on a CPU, and what it says without."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from test_sizes import SMALL

from speculative_tts.commands import bench
from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.drafters.lm import LMDrafter
from speculative_tts.decoding.loops import paying
from speculative_tts.decoding.loops.graphs import Graphs
from speculative_tts.decoding.rules.acceptance import Tolerance
from speculative_tts.native import library
from speculative_tts.schema.bench import BenchConfig
from speculative_tts.schema.decode import Kernels
from speculative_tts_benchmarks import gpu, gpu_limits
from speculative_tts_benchmarks.coin import TossedSpeculation
from speculative_tts_benchmarks.sizes import SIZES

CPU = torch.device("cpu")
NEVER = float("inf")
SOME = SimpleNamespace(name="A GPU", major=9, minor=0, multi_processor_count=1, clock_rate=1_000)


def config() -> BenchConfig:
    return bench.main.compose(["tokens=12", "lookahead=3"])


def test_every_case_is_measured() -> None:
    """Prefill and steps apart, counts as they are; the table has each row."""
    cases = (gpu.Case(1), gpu.Case(3, 0.8), gpu.Case(1, 0.8, recurrent=True))
    cases += (gpu.Case(1, captured=False), gpu.Case(1, 0.6, paying=True))
    rows = list(gpu.rows(SMALL, config(), CPU, cases, NEVER))
    assert [(row["batch"], row["rate"], row["captured"]) for row in rows] == [
        (1, None, True), (3, 0.8, True), (1, 0.8, True), (1, None, False), (1, 0.6, True),
    ]  # fmt: skip
    assert [row["tokens"] for row in rows] == [12, 36, 12, 12, 12]
    assert [row["rounds"] > 0 for row in rows[:4]] == [False, True, True, False]
    assert all(row["prefill_seconds"] > 0 and row["step_seconds"] > 0 for row in rows)
    result = {
        "sizes": {"small": {"title": SMALL.title, "rows": rows}},
        "bytes_per_second": 1e9,
        "operations_per_second": None,
        "kernels_per_second": None,
        "lookahead": 3,
        "provenance": {},
    }
    assert gpu.table(result).count("| CosyVoice 2 |") == 5
    assert gpu.table(result).count("| speculative where it pays, 0.6 pass (synthetic) |") == 1
    assert gpu.table(result).count("| recurrent layer, 0.8 pass (synthetic) |") == 1
    assert gpu.table(result).count("| - | - | - |") == 5  # of a device whose limits are unknown
    known = result | {"operations_per_second": 1e12, "kernels_per_second": 1e9}
    for row in rows:
        row["kernels_per_step"] = 130
    assert "| - |" not in gpu.table(known)


def test_a_row_where_speculation_does_not_pay_is_the_targets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its work and counts too."""
    monkeypatch.setattr(paying, "speed", lambda _, spec, __: 2.0 if spec.slack == 0 else 1.0)
    plain, row = gpu.rows(SMALL, config(), CPU, (gpu.Case(2), gpu.Case(2, 0.6, paying=True)), NEVER)
    own = {"rate", "paying", "prefill_seconds", "step_seconds"}
    assert row["rounds"] == 0
    assert {key: row[key] for key in row.keys() - own} == {
        key: plain[key] for key in plain.keys() - own
    }
    assert gpu.LAST in SIZES


def test_nothing_is_begun_after_the_deadline() -> None:
    """A run of 170 s that was killed had written nothing, and knew no end."""
    assert not list(gpu.rows(SMALL, config(), CPU, (gpu.Case(1),), time.monotonic() - 1))
    some = gpu.rows(SMALL, config(), CPU, (gpu.Case(1), gpu.Case(1)), time.monotonic() + 60)
    assert next(some)["batch"] == 1


def test_what_was_measured_is_kept_when_the_run_is_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows are printed and written one by one, not after the last size."""
    real = gpu.rows

    def cut(*given: object) -> object:
        size, settings, _, _, deadline = given
        yield from real(size, settings, CPU, (gpu.Case(1),), deadline)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "A GPU")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SOME)
    monkeypatch.setattr(gpu_limits, "kernels_per_second", lambda _: 1e6)
    monkeypatch.setattr(gpu, "bandwidth", lambda device: 1e9)
    monkeypatch.setattr(gpu, "rows", cut)
    monkeypatch.setattr(gpu, "SIZES", {"small": SMALL})
    with pytest.raises(KeyboardInterrupt):
        gpu.run_gpu(config(), tmp_path)
    (row,) = json.loads((tmp_path / "gpu_a_gpu.json").read_text())["sizes"]["small"]["rows"]
    assert row["tokens"] == 12
    assert "| CosyVoice 2 |" in (tmp_path / "gpu_a_gpu.md").read_text()
    assert "| CosyVoice 2 |" in capsys.readouterr().out


@pytest.mark.parametrize("rate", gpu.RATES)
def test_a_coin_passes_as_often_as_it_says(rate: float) -> None:
    """Accepted tokens a round are r + r^2 + r^3; bounds of six standard deviations."""
    target = SMALL.make(torch.float32, CPU, 0)
    parts = (target, LMDrafter(SMALL.draft_of(target)), Tolerance(0.0), SMALL.sampler, (), 3)
    asked = [Request(str(n), SMALL.prompt(target, n), None, 300, 300, 0) for n in range(8)]
    graphs = Graphs(lambda step: step)
    made = TossedSpeculation(*parts, rate=rate).looping()
    counts = [one.counts for one in graphs.decode(made, asked)]
    rounds, accepted = sum(one.rounds for one in counts), sum(one.accepted for one in counts)
    mean = rate + rate**2 + rate**3
    assert abs(accepted / rounds - mean) < 6 * 1.3 / rounds**0.5
    if rate == gpu.RATES[-1]:
        assert mean + 1 == pytest.approx(3.26, abs=0.01)


def test_parity_of_a_machine_with_itself() -> None:
    found = gpu.parity(SMALL, 0, CPU)
    assert found["float32"] == 0
    assert 0 < found["bfloat16"] < 0.05
    assert 0 < found["bfloat16 by torch"] < 0.05
    assert library.chosen() is Kernels.auto


def test_weights_are_the_same_in_every_format() -> None:
    """Bug: an embedding was drawn in the model's format, so formats were compared by models that
    had nothing in common (total variation 0.9 on an H100, by torch's kernels too).
    """
    wide, narrow = (SMALL.weights(dtype, 0) for dtype in (torch.float32, torch.bfloat16))
    assert torch.equal(wide.embedding.bfloat16(), narrow.embedding)


def test_prefill_and_steps_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The better one of the last two decodes counts: the first two tune, compile and capture."""
    readings = iter([0, 90, 100, 0, 50, 100, 0, 2, 10, 0, 1, 12])  # begin, first tokens, end
    monkeypatch.setattr(gpu, "time", SimpleNamespace(perf_counter=lambda: next(readings)))
    counts = SimpleNamespace(rounds=4)
    outcomes = [SimpleNamespace(tokens=[1] * 12, counts=counts)]

    def decode(spec: object, requests: object, loaded: Callable[[], None]) -> object:
        loaded()
        return outcomes

    found = gpu.timed(SimpleNamespace(decode=decode), None, [], CPU)  # type: ignore[arg-type]
    assert found == {"prefill_seconds": 2, "step_seconds": 8, "tokens": 12, "rounds": 4}


def test_it_ends_in_four_minutes() -> None:
    """The row that is begun last is still to end: none is expected to take more than 20 s."""
    assert gpu.SECONDS <= 4 * 60 - 20


def test_memory_is_timed_by_the_devices_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """More bytes than any L2 cache has (126 MB of a B200), the fastest of ten reads."""
    milliseconds = iter([9.0, 2.0, *[4.0] * 8])

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None: ...

        def synchronize(self) -> None: ...

        def elapsed_time(self, end: object) -> float:
            return next(milliseconds)

    numbers = SimpleNamespace(sum=lambda: None)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch, "ones", lambda size, **_: numbers)
    assert gpu.bandwidth(torch.device("cuda")) == pytest.approx(gpu.READ / 2e-3)
    assert gpu.READ > 20 * 126e6


def test_memory_is_read() -> None:
    assert 1e8 < gpu.bandwidth(CPU, 1 << 22) < 1e13
