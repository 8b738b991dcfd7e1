"""sst-check: table, JSON and exit codes, on folders of sizes that no golden file at hand has."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from valle_golden import small_valle, write_checkpoint, write_valle_golden

from speculative_tts.checks.compare import close, relative, same
from speculative_tts.checks.kinds import require_kind, targets_of
from speculative_tts.checks.registry import CHECKS
from speculative_tts.commands.check import main

GOLDEN = Path(__file__).parents[1] / "golden"
SPEECHTOKENIZER = GOLDEN / "speechtokenizer"
FOLDERS = {  # golden folders here, by the target that they are of
    **{name: GOLDEN / name for name in ("cosyvoice2", "csm", "llasa", "speechtokenizer", "uslm")},
    **{name: GOLDEN / "rows" / name for name in ("maya1", "orpheus", "snac", "spark", "veena")},
    "soprano": GOLDEN / "qwen3" / "soprano",
    "viterbi": GOLDEN / "viterbi",
}


def test_a_folder_of_other_sizes_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_valle_golden(tmp_path, small_valle())
    out = tmp_path / "results" / "check.json"
    assert main(["target=valle", f"golden={tmp_path}", f"out={out}"]) == 0
    printed = capsys.readouterr().out
    assert "greedy: logits of every step" in printed
    assert "MISSED" not in printed
    written = json.loads(out.read_text())
    assert written["passed"] is True
    assert all(case["worst"] <= case["tolerance"] for case in written["cases"])
    assert f"{len(written['cases'])} of {len(written['cases'])} cases within" in printed
    assert written["provenance"]["config"]["golden"] == str(tmp_path)


@pytest.mark.parametrize("target", ["valle", "uslm"])
@pytest.mark.parametrize(
    "name",
    ["ar_decoder.layers.1.linear2.bias", "nar_decoder.norm.norm.weight", "ar_predict_layer.weight"],
)
def test_a_changed_weight_is_missed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str, name: str
) -> None:
    """The negative control: one tensor of the checkpoint a little off."""
    valle = small_valle()
    write_valle_golden(tmp_path, valle)
    state = {key: tensor.clone() for key, tensor in valle.state().items()}
    state[name].view(-1)[3] += 0.01
    valle.load_state(state)
    write_checkpoint(tmp_path / "checkpoint.pt", valle)
    out = tmp_path / "check.json"
    assert main([f"target={target}", f"golden={tmp_path}", f"out={out}"]) == 1
    assert "MISSED" in capsys.readouterr().out
    assert json.loads(out.read_text())["passed"] is False


def test_speechtokenizer_passes_and_a_changed_weight_is_missed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["target=speechtokenizer", f"golden={SPEECHTOKENIZER}"]) == 0
    shutil.copytree(SPEECHTOKENIZER, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "SpeechTokenizer_snake.pt"
    state = torch.load(path, weights_only=True)
    state["decoder.model.15.conv.conv.bias"] += 0.01
    path.unlink()
    torch.save(state, path)
    assert main(["target=speechtokenizer", f"golden={tmp_path}"]) == 1
    assert "5 of 9 cases within" in capsys.readouterr().out


def test_folders_that_are_not_in_the_format(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(*arguments: str) -> str:
        assert main(list(arguments)) == 2
        return capfd.readouterr().err

    assert "main.npz not found" in fails("target=valle", f"golden={tmp_path}")
    (tmp_path / "main.npz").write_text("not numpy")
    assert "is not a readable .npz file" in fails("target=valle", f"golden={tmp_path}")
    np.savez(tmp_path / "main.npz", x=np.zeros(1))
    assert "info.json not found" in fails("target=valle", f"golden={tmp_path}")
    (tmp_path / "info.json").write_text("{}")
    write_checkpoint(tmp_path / "checkpoint.pt", small_valle())
    assert "has no 'nar_teacher_forced'" in fails("target=valle", f"golden={tmp_path}")
    (tmp_path / "info.json").write_text('{"nar_teacher_forced": {}}')
    assert "has no 'tf_" in fails("target=valle", f"golden={tmp_path}")
    np.savez(tmp_path / "speechtokenizer.npz", x=np.zeros(1))
    message = fails("target=speechtokenizer", f"golden={tmp_path}")
    assert "has no config_<name>.json" in message


@pytest.mark.parametrize("of", FOLDERS)
def test_a_folder_of_another_target_is_refused(of: str, capfd: pytest.CaptureFixture[str]) -> None:
    """In one line, which names the target to give, before anything is computed."""
    require_kind(FOLDERS[of], of)
    for target in CHECKS.keys() - {of}:
        assert main([f"target={target}", f"golden={FOLDERS[of]}"]) == 2
        caught = capfd.readouterr()
        assert f"holds golden files of {of}, not of {target}; give target={of}" in caught.err
        assert caught.err.count("\n") == 1
        assert not caught.out


def test_rows_of_an_own_model_go_with_the_target_that_writes_codes_so(tmp_path: Path) -> None:
    def found(rows: dict[str, str]) -> list[str]:
        (tmp_path / "golden.json").write_text(json.dumps({"rows": rows}))
        return targets_of(tmp_path)

    assert found({"code": "<|bicodec_semantic_{}|>", "user": "Say: {text}"}) == ["spark"]
    assert len(found({"code": "<|audio_{}|>", "user": "Say: {text}"})) == 5


def test_every_check_has_its_module() -> None:
    root = Path(__file__).parents[2]
    for module in CHECKS.values():
        assert (root / f"{module.replace('.', '/')}.py").is_file(), module


def test_differences() -> None:
    nan, infinite = float("nan"), float("inf")
    assert close("", np.array([1.0, -infinite]), np.array([1.5, -infinite])).worst == 0.5
    assert not close("", np.array([nan]), np.array([1.0])).passed
    assert not close("", np.array([infinite]), np.array([1.0])).passed
    assert not close("", np.zeros(2), np.zeros(3)).passed
    assert same("", [1, 2, 3], [1, 5]).worst == 2
    assert same("", np.zeros((2, 3)), np.zeros((4, 3))).worst == 6
    assert not same("", np.zeros((2, 3)), np.zeros((2, 4))).passed
    assert relative("", 1000.05, 1000.0).passed
    assert not relative("", nan, 1.0).passed
