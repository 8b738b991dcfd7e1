"""A Qwen3 whose codes are words, by configs/target/soprano.yaml: golden files of its makers."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from speculative_tts.checks.code_rows import check
from speculative_tts.commands import decode
from speculative_tts.models.families.row_layout import RowLayout
from speculative_tts.models.prompt import Prompt

GOLDEN = Path(__file__).parents[2] / "golden" / "qwen3" / "soprano"


@pytest.mark.usefixtures("kernels")
def test_prompts_logits_and_tokens_are_the_golden_ones() -> None:
    rows = list(check(GOLDEN))
    assert [row for row in rows if not row.passed] == []
    cases = " ".join(row.case for row in rows)
    kinds = ("text_0, ids", "text_2: logits", "greedy, free, speculative", "sampler, free")
    assert all(kind in cases for kind in kinds)


def test_the_shipped_configuration_writes_the_packages_prompts() -> None:
    """But for the number of codes, which is 40 in the small model."""
    target = decode.main.compose(["target=soprano", "codec=soprano_codes"]).target
    layout = RowLayout.read(GOLDEN / "model", replace(target.rows))
    assert layout.n_codes == 40
    for case in json.loads((GOLDEN / "golden.json").read_text())["prompts"]:
        assert layout.prompt_ids(Prompt(case["text"])) == case["ids"]
    assert layout.sampling["repetition_penalty"] == 1.2


def test_a_wrong_norm_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "golden"
    shutil.copytree(GOLDEN, folder)
    path = folder / "model" / "config.json"
    path.chmod(0o644)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rms_norm_eps": 0.5}))
    assert any("logits" in row.case for row in check(folder) if not row.passed)
