"""The golden check of LLaSA passes on the golden files, and fails on damaged ones."""

import json
import shutil
from pathlib import Path

import pytest

from speculative_tts.checks.llasa import check
from speculative_tts.checks.registry import FormatError

pytestmark = pytest.mark.usefixtures("kernels")

GOLDEN = Path(__file__).parents[2] / "golden" / "llasa"


def test_every_case_is_within_its_tolerance() -> None:
    rows = list(check(GOLDEN))
    assert [row for row in rows if not row.passed] == []
    kinds = ("rows of codes", "prompt clone_zh_edge, ids", "logits, tf", "greedy clone_en, spec")
    cases = " ".join(row.case for row in rows)
    assert all(kind in cases for kind in (*kinds, "sampler lora", "nearest", "drafted by", "row 2"))
    assert sum("3b_style" in row.case and "logits" in row.case for row in rows) == 1


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"expected\.json not found"):
        next(check(tmp_path))


def test_a_wrong_norm_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "golden"
    shutil.copytree(GOLDEN, folder)
    expected = json.loads((folder / "expected.json").read_text())
    kept = {key: value for key, value in expected.items() if key == "1b_style"}
    (folder / "expected.json").write_text(json.dumps(kept))
    path = folder / "model_1b_style" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rms_norm_eps": 1e-6}))
    missed = [row.case for row in check(folder) if not row.passed]
    assert any("logits, tf tts_en" in case for case in missed)
    assert not any("prompt" in case for case in missed)
