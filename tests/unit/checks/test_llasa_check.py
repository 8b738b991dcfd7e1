"""The golden check of LLaSA passes on the golden files, and fails on damaged ones."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import LlamaConfig, LlamaForCausalLM

from speculative_tts.checks.llasa import check

GOLDEN = Path(__file__).parents[2] / "golden" / "llasa"


@pytest.mark.usefixtures("kernels")
def test_every_case_is_within_its_tolerance() -> None:
    rows = list(check(GOLDEN))
    assert [row for row in rows if not row.passed] == []
    kinds = ("rows of codes", "prompt clone_zh_edge, ids", "logits, tf", "greedy clone_en, spec")
    cases = " ".join(row.case for row in rows)
    assert all(kind in cases for kind in (*kinds, "sampler lora", "nearest", "drafted by", "row 2"))
    assert sum("3b_style" in row.case and "logits" in row.case for row in rows) == 1


@pytest.mark.usefixtures("kernels")
def test_a_golden_of_one_key_value_head_computed_in_a_batch_of_two(tmp_path: Path) -> None:
    """In the format of the others; transformers computes two padded rows at once."""
    folder = tmp_path / "golden"
    shutil.copytree(GOLDEN, folder, ignore=shutil.ignore_patterns("sampling.npz", "asg.npz"))
    style, cases = "8b_style", ("tts_en", "clone_en")
    expected = json.loads((folder / "expected.json").read_text())
    (folder / "expected.json").write_text(json.dumps({style: expected[style]}))
    place = folder / f"model_{style}"
    config = json.loads((place / "config.json").read_text()) | {"num_key_value_heads": 1}
    torch.manual_seed(3)
    model = LlamaForCausalLM(LlamaConfig(**config)).eval()
    model.save_pretrained(place)
    told = {case["name"]: case["llama31"]["input_ids"] for case in read(folder / "prompts.json")}
    first_code = read(folder / "layout.json")["speech_first_id"]
    codes = [first_code + code for code in expected[style]["teacher_forced_codes"]]
    rows = [torch.tensor(told[case] + codes) for case in cases]
    seen = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    with torch.inference_mode():
        logits = model(pad_sequence(rows, batch_first=True), attention_mask=seen).logits
    arrays = {}
    for case, row, found in zip(cases, rows, logits, strict=True):
        begin = len(told[case]) - 1
        arrays[f"{style}/tf_{case}_ids"] = row.numpy()
        arrays[f"{style}/tf_{case}_logits"] = found[begin : len(row)].numpy()
    np.savez(folder / "logits.npz", **arrays)
    rows_of = {row.case: row for row in check(folder)}
    assert {f"{style}: logits, tf {case}" for case in cases} <= rows_of.keys()
    assert [row for row in rows_of.values() if not row.passed] == []


def read(path: Path) -> Any:
    return json.loads(path.read_text())


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
