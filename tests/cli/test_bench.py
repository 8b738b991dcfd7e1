"""sst-bench: what it refuses before it loads anything."""

from pathlib import Path

import pytest

from speculative_tts.commands import bench


@pytest.mark.parametrize("random", [[], ["random=cosyvoice2"]])
@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("steps=0", "steps 0 is below 1; give 1 or more"),
        ("limit=0", "limit 0 is below 1"),
        ("tokens=1", "tokens 1 is below 2"),
        ("draws=0", "draws 0 is below 1"),
        ("lookahead=0", "lookahead 0 is below 1"),
        ("runtime.threads=0", "runtime.threads 0 is below 1"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    random: list[str],
    override: str,
    message: str,
) -> None:
    assert bench.main([f"out={tmp_path / 'bench'}", *random, override]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "bench").exists()
