"""sst-check folder=...: what a checkpoint is, the configuration for it, what it lacks."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from speculative_tts.assets import resolve
from speculative_tts.checks.folder import describe, numbered
from speculative_tts.commands import check as command
from speculative_tts.models.families.row_layout import RowLayout
from speculative_tts.schema.common import RowsConfig
from speculative_tts.typed import typed

GOLDEN = Path(__file__).parents[2] / "golden"
LLASA = GOLDEN / "llasa" / "model_1b_style"


def test_a_checkpoint_of_a_known_layout_gets_its_configuration(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main([f"folder={LLASA}"]) == 0
    out = capsys.readouterr().out
    assert "is a llama of 4 layers, width 64 and 600 rows" in out
    assert "256 tokens like <|s_{}|>" in out
    assert "    defaults: [llasa_1b, _self_]\n    name: mine\n" in out


def test_codes_of_no_known_layout_leave_end_and_prompt_to_be_found(tmp_path: Path) -> None:
    """A bare Qwen3 or Llama said only what its rows are not."""
    folder = tmp_path / "mine"
    shutil.copytree(LLASA, folder)
    for path in folder.glob("*.json"):
        path.write_text(path.read_text().replace("<|s_", "<|code_"))
    found = describe(folder)
    settings = yaml.safe_load("\n".join(found.written))
    assert settings["rows"]["code"] == "<|code_{}|>"
    assert found.missing == ("rows.end, rows.user, rows.assistant: as the model was trained",)
    assert "SPEECH_GENERATION_END" in "\n".join(found.lines)
    layout = RowLayout.read(folder, typed(RowsConfig, settings["rows"], "rows"))
    assert layout.n_codes == 256


def test_a_model_of_text_is_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "text"
    shutil.copytree(LLASA, folder)
    tokenizer = folder / "tokenizer.json"
    stored = json.loads(tokenizer.read_text())
    stored["added_tokens"] = [one for one in stored["added_tokens"] if "<|s_" not in one["content"]]
    tokenizer.write_text(json.dumps(stored))
    about = folder / "tokenizer_config.json"
    settings = json.loads(about.read_text())
    settings.pop("added_tokens_decoder", None)
    about.write_text(json.dumps(settings))
    assert command.main([f"folder={folder}"]) == 1
    assert "missing: codes: no tokens differ by a number alone" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("gone", "said"), [("model.safetensors", "no model.safetensors in"), ("config.json", "no file")]
)
def test_a_torn_folder_is_one_line(
    gone: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(LLASA, folder)
    (folder / gone).unlink()
    assert command.main([f"folder={folder}"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line


def test_tokens_that_differ_by_a_number_are_a_pattern() -> None:
    vocabulary = {f"<|s_{n}|>": n for n in range(20)} | {f"{n}": n for n in range(99)}
    assert numbered(vocabulary) == {"<|s_{}|>": 20}


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "cut", "cut rows"])
def test_a_folder_that_does_not_load_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    """A speech.json alone was once a checkpoint to speak with, whatever lay beside it."""
    folder = tmp_path / "mine"
    shutil.copytree(LLASA if file == "cut rows" else resolve("tiny:target"), folder)
    weights = folder / "model.safetensors"
    if file.startswith("cut"):
        weights.write_bytes(weights.read_bytes()[:-1000])
    else:
        (folder / file).unlink()
    assert command.main([f"folder={folder}"]) == 2
    assert str(folder) in capsys.readouterr().err


def test_a_whole_folder_of_a_family_is_one() -> None:
    assert describe(resolve("tiny:valle")).lines[0].endswith("of the family VALL-E, and whole")
