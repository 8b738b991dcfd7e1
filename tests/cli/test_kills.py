"""SIGKILL while scoring, then the same again: as if nothing had happened."""

import json
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile
from fake_models import tone
from killing import start

from speculative_tts.commands.eval import main as evaluate

pytestmark = [pytest.mark.slow, pytest.mark.whole]
UTTERANCES = 16


def test_scoring_with_workers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for number in range(UTTERANCES):
        soundfile.write(tmp_path / f"u{number}.wav", tone(rng, seconds=0.6), 16_000)
        rows.append({"id": f"u{number}", "text": "alpha two", "audio": f"u{number}.wav"})
    path = tmp_path / "list.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    common = [f"list={path}", "metrics=[wer]", "workers=2", "draws=50"]
    whole, cut = tmp_path / "whole" / "scores", tmp_path / "cut" / "scores"
    assert evaluate([*common, f"out={whole}", f"cache={tmp_path / 'other'}"]) == 0

    def kept() -> bytes:
        return b"".join(file.read_bytes() for file in cut.glob(".scores/pocketsphinx*.jsonl"))

    process = start("eval", [*common, f"out={cut}"])
    while process.poll() is None and kept().count(b"\n") < 3:
        time.sleep(0.005)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert 3 <= kept().count(b"\n") <= UTTERANCES  # the first line is the judge
    assert not (cut / "scores.jsonl").exists()
    there = b"".join(kept().splitlines(keepends=True)[:3])
    assert evaluate([*common, f"out={cut}"]) == 0
    assert kept().startswith(there)
    assert kept().count(b"\n") == UTTERANCES + 1
    assert (cut / "scores.jsonl").read_bytes() == (whole / "scores.jsonl").read_bytes()
    summaries = [json.loads((out / "summary.json").read_text()) for out in (cut, whole)]
    assert all(summary.pop("argv") for summary in summaries)  # they name their folder
    assert summaries[0] == summaries[1]
