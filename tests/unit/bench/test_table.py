"""The table of sst-bench."""

from dataclasses import replace

import pytest

from speculative_tts.bench.engine import OURS
from speculative_tts.bench.table import ratios, table
from speculative_tts.schema.bench import BenchConfig

PART = {
    "lookaheads": {},
    "steps": {"accept": 0.001, "target step (1 token)": 0.001, "target pass (8 tokens)": 0.01},
    "group_rule": {},
    "path_search": {"best path": 0.0004},
    "bytes_per_second": {"target": 44e9, "main memory": 30e9},
}
RESULT = {
    "continuations": {
        "autoregressive": {"tokens_per_second": [100.0, None, None], "core_ms": [5.0, 4.0, 6.0]},
    },
    "processes": 1,
    "drafters": {},
    "parts": [PART],
    "seconds": {"autoregressive": [1.0]},
    "core_seconds": {"autoregressive": [0.5]},
    "threads": 1,
    "provenance": {"argv": ["sst-bench", "limit=1"], "date": "2026-11-21T10:00:00"},
    "bytes_per_step": {"target": 22e6},
    "left_out": "Heads are left out, heads.path=heads is no folder: make them.",
    "context": 80,
    "tokens": 100,
}


@pytest.mark.parametrize(
    ("interval", "cell"),
    [([1.5, None, None], "| 1.50 |"), ([1.5, 1.25, 2.0], "| 1.50 [1.25, 2.00] |")],
)
def test_one_prompt_alone_has_no_interval(interval: list[float | None], cell: str) -> None:
    row = RESULT["continuations"]["autoregressive"] | {"vs_autoregressive": interval}  # type: ignore[index]
    printed = table(RESULT | {"continuations": {"autoregressive": row}})
    assert f"| 100 | 5.00 [4.00, 6.00] {cell} - |" in printed


def test_speeds_of_several_processes_have_the_wider_interval() -> None:
    """Processes whose memory differs by a quarter: prompts alone know nothing of that."""
    config = BenchConfig(processes=5, draws=1000)
    slow = [1.0, 1.25, 1.0, 1.1, 0.9]
    base = [1.0 + 0.01 * prompt for _ in slow for prompt in range(10)]
    own = [0.5 * one * slow[place // 10] for place, one in enumerate(base)]
    seconds = {OURS: base, "exact": own}
    value, low, high = ratios(config, seconds, own, "exact")["vs_autoregressive"]
    assert None not in (low, high)
    assert value == pytest.approx(2 / 1.05)
    one = replace(config, processes=1)
    alone = ratios(one, seconds, own, "exact")["vs_autoregressive"]
    assert high - low > 2 * (alone[2] - alone[1])
    assert low < 2 / 1.1 < 2 / 1.0 < high


def test_limits_stand_beside_what_is_reached() -> None:
    printed = table(RESULT)
    assert "| target | 44.0 | 22.0 | 2000 | 10% |" in printed
    assert "| main memory | 30.0 | - | - | - |" in printed
    assert "| target step (1 token) | 1.000 | 50% |" in printed
    assert "| target pass (8 tokens) | 10.000 | 5% |" in printed
    assert "| accept | 1.000 | - |" in printed
    torchs = table(RESULT | {"parts": [PART | {"bytes_per_second": {}}]})
    assert "limit, steps/s" not in torchs
    assert "| target step (1 token) | 1.000 | - |" in torchs


def test_searches_are_shares_of_a_pass_and_the_origin_is_told() -> None:
    printed = table(RESULT)
    assert "| best path | 0.400 | 4.0% |" in printed
    assert "1 prompts, 100 tokens each, batch 1, 1 thread(s)." in printed
    assert "Made by: `sst-bench limit=1`" in printed


def test_the_lookahead_that_pays_is_marked() -> None:
    rows = [
        {"lookahead": 1, "round_seconds": 0.002, "tokens": 1.6, "speedup": 0.8},
        {"lookahead": 2, "round_seconds": 0.0022, "tokens": 2.2, "speedup": 1.1},
    ]
    steps = PART["steps"] | {"verify (2 tokens)": 0.0013, "verify (3 tokens)": 0.0014}  # type: ignore[operator]
    part = PART | {"lookaheads": {"exact, recurrent": rows}, "steps": steps}
    printed = table(RESULT | {"parts": [part], "drafters": {"exact, recurrent": 1.7e6}})
    assert "| exact, recurrent: lookahead | a round, core ms | verification, core ms |" in printed
    # 0.7 ms beside the verification for one token, 0.4 each of two; alone a token takes 1 and 1.1
    assert "| 1 | 2.000 | 1.300 | 0.70 | 0.60 | 1.60 | 0.80 |" in printed
    assert "| **2** | 2.200 | 1.400 | 0.36 | 0.60 | 2.20 | 1.10 |" in printed
    # All 3 tokens of a round of 2.2 ms: 1.5 times the 1.1 ms of each; 60 % pass, then all of these
    assert "| exact, recurrent | 1.7 | 0.36 | 0.60 | 1.00 | - | 2 | 1.10 | 1.50 |" in printed
    # 22 MB at 44 GB/s: 0.5 ms, of 5 a token with its share of the prompt, of 1 without it
    assert "| target | 44.0 | 22.0 | 2000 | 10% | 50% |" in printed


def test_rounds_and_steps_have_intervals_over_the_processes_that_timed_them() -> None:
    """They were of the first process alone, beside speeds of five."""
    slow = (1.0, 1.1, 0.9, 1.2, 0.8)
    row = {"lookahead": 1, "round_seconds": 0.002, "tokens": 1.6, "speedup": 0.8}
    parts = [
        PART
        | {
            "lookaheads": {"exact": [row | {"round_seconds": 0.002 * x, "speedup": 0.8 / x}]},
            "steps": {**PART["steps"], "accept": 0.001 * x, "verify (2 tokens)": 0.0013 * x},
        }
        for x in slow
    ]
    five = {"parts": parts, "processes": 5, "drafters": {"exact": 1e6}}
    spent = {kind: {OURS: [1.0 * x for x in slow]} for kind in ("seconds", "core_seconds")}
    printed = table(RESULT | five | spent)
    assert printed.startswith("Timed in 5 processes, one after the other, each of which measured")
    # t of 4 degrees of freedom, 2.776, times 0.160 over the root of 5: a factor of exp(0.199)
    assert "| **1** | 2.000 [1.639, 2.440] | 1.300 [1.065, 1.586] |" in printed
    assert "| accept | 1.000 [0.820, 1.220] | - |" in printed
    # a drafted token may cost less than nothing: 0.7 ms of 1 ms a token, and 0.14 to each side
    assert "| 0.70 [0.56, 0.84] | 0.60 | 1.60 | 0.82 [" in printed
    # 22 MB at 44 GB/s take 0.5 ms, of 10 to 12 a token
    assert "| target | 44.0 [44.0, 44.0] | 22.0 | 2000 [2000, 2000] | 5% [4%, 6%] |" in printed
