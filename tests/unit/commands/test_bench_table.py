"""The table of sst-bench."""

import pytest

from speculative_tts.commands.bench import table

RESULT = {
    "continuations": {
        "autoregressive": {"tokens_per_second": 100.0, "ms_per_token": 10.0},
    },
    "steps": {"accept": 0.001},
    "group_rule": {},
    "path_search": {},
    "bytes_per_step": {"target": 22e6},
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
    assert f"100 | 10.00 {cell} - |" in printed
