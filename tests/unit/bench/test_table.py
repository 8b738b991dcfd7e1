"""The table of sst-bench."""

import pytest

from speculative_tts.bench.table import table

RESULT = {
    "continuations": {
        "autoregressive": {"tokens_per_second": 100.0, "ms_per_token": 10.0},
    },
    "steps": {"accept": 0.001, "target step (1 token)": 0.001, "target pass (8 tokens)": 0.01},
    "group_rule": {},
    "path_search": {"best path": 0.0004},
    "seconds": {"autoregressive": [1.0]},
    "core_seconds": {"autoregressive": [0.5]},
    "threads": 1,
    "provenance": {"argv": ["sst-bench", "limit=1"], "date": "2026-11-21T10:00:00"},
    "bytes_per_step": {"target": 22e6},
    "bytes_per_second": {"target": 44e9, "main memory": 30e9},
    "context": 80,
    "tokens": 100,
}


@pytest.mark.parametrize(
    ("interval", "cell"),
    [([1.5, None, None], "| 1.50 |"), ([1.5, 1.25, 2.0], "| 1.50 (1.25-2.00) |")],
)
def test_one_prompt_alone_has_no_interval(interval: list[float | None], cell: str) -> None:
    row = RESULT["continuations"]["autoregressive"] | {"vs_autoregressive": interval}  # type: ignore[index]
    printed = table(RESULT | {"continuations": {"autoregressive": row}})
    assert f"100 | 10.00 | 5.00 {cell} - |" in printed


def test_limits_stand_beside_what_is_reached() -> None:
    printed = table(RESULT)
    assert "| target | 44.0 | 2000 | 50% | 10% |" in printed
    assert "| main memory | 30.0 | - | - | - |" in printed
    assert "limit, steps/s" not in table(RESULT | {"bytes_per_second": {}})  # torch's kernels


def test_searches_are_shares_of_a_pass_and_the_origin_is_told() -> None:
    printed = table(RESULT)
    assert "| best path | 0.400 | 4.0% |" in printed
    assert "1 prompts, 100 tokens each, batch 1, 1 thread(s)." in printed
    assert "Made by: `sst-bench limit=1`" in printed
