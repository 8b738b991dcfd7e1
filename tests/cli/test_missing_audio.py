"""sst-decode over a list whose recordings are not all there."""

import json
from pathlib import Path

import pytest

from speculative_tts.commands import decode
from tests.fake_models import write_fake_models


@pytest.mark.parametrize(
    ("system", "key"), [("target", "prompt_audio"), ("reference", "reference_audio")]
)
def test_rows_without_audio_are_named_and_counted_before_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], system: str, key: str
) -> None:
    """It once came out at the row itself, after all that had been decoded before."""
    models = write_fake_models(tmp_path)
    path = models.root / "list.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows[-2:]:
        row[key] = "gone.wav"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    runs = tmp_path / "runs"
    assert decode.main([*models.overrides, f"system={system}", f"out={runs}"]) == 2
    said = f"audio of 2 of {len(rows)} rows is missing: {rows[-2]['id']} ({models.root}/gone.wav)"
    assert f"{said}; get it, or take those rows out" in capsys.readouterr().err
    assert not list(runs.glob("*/records.jsonl"))
