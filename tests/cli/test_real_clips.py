"""The whole path of the ground truth on real LibriTTS: list, recordings as a run, scores."""

import json
from pathlib import Path

import pytest
from libritts_clips import TARGETS, lay_out, unicats

from speculative_tts.commands import decode, prepare
from speculative_tts.commands import eval as evaluate


@pytest.mark.whole
@pytest.mark.slow
def test_ground_truth_of_a_published_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, source = lay_out(tmp_path / "corpus"), unicats(tmp_path / "testsetB_utt2prompt")
    items, runs = tmp_path / "list", tmp_path / "runs"
    assert (
        prepare.main(["corpus=list", f"path={corpus}", f"list_file={source}", f"out={items}"]) == 0
    )
    data = [f"data.path={items / 'list.jsonl'}", "data.name=clips"]
    assert decode.main(["method=reference", *data, f"out={runs}"]) == 0
    assert evaluate.main([f"runs={runs}", "workers=1", "draws=100"]) == 0
    (summary,) = [json.loads(path.read_text()) for path in runs.glob("*/summary.json")]
    metrics = summary["metrics"]
    assert (summary["n"], summary["n_failed"], summary["preset"]) == (2, 0, "offline")
    assert summary["judges"]["wer"]["id"] == "pocketsphinx-general"
    assert metrics["wer"]["value"] < 0.5
    assert metrics["similarity"]["value"] > metrics["similarity_floor"]["value"] + 0.1
    assert 3.0 < metrics["dnsmos"]["value"] < 4.5
    assert metrics["length_ratio"]["value"] == pytest.approx(1.0, abs=0.01)
    assert metrics["lm_rtf"]["value"] is None
    (scores,) = runs.glob("*/scores.jsonl")
    assert all(key in scores.read_text() for key in TARGETS)
