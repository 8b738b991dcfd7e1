"""Signatures change with what changes results, and with nothing else."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from speculative_tts import provenance
from speculative_tts.schema import (
    CheckpointConfig,
    CodecConfig,
    DecodeConfig,
    ListConfig,
    RowsConfig,
    Rule,
    RuleConfig,
    System,
)


@pytest.fixture
def config(tmp_path: Path) -> DecodeConfig:
    for name in ("target", "draft", "codec"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(name.encode())
        (tmp_path / name / "config.json").write_text("{}")
    for name in ("prompt", "reference"):
        (tmp_path / f"{name}.wav").write_bytes(name.encode())
    row = {"prompt_audio": "prompt.wav", "reference_audio": "reference.wav"}
    (tmp_path / "list.jsonl").write_text(json.dumps(row) + "\n{}\n")
    return DecodeConfig(
        target=CheckpointConfig("t", str(tmp_path / "target")),
        draft=CheckpointConfig("d", str(tmp_path / "draft")),
        codec=CodecConfig("c", str(tmp_path / "codec")),
        data=ListConfig("l", str(tmp_path / "list.jsonl")),
    )


def test_signature_is_eight_hex_digits_and_stable(config: DecodeConfig) -> None:
    value = provenance.signature(config)
    assert len(value) == 8
    assert int(value, 16) >= 0
    assert value == provenance.signature(dataclasses.replace(config))


@pytest.mark.parametrize(
    "prompt", [{"rows": RowsConfig(date=None)}, {"instruction": "Be kind.<|endofprompt|>"}]
)
def test_how_prompts_are_written_changes_it(
    config: DecodeConfig, prompt: dict[str, object]
) -> None:
    """A run with another date or instruction was once taken for done."""
    target = dataclasses.replace(config.target, **prompt)
    changed = dataclasses.replace(config, target=target)
    assert provenance.signature(changed) != provenance.signature(config)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"limit": 5},
        {"lookahead": 4},
        {"system": System.draft},
        {"rule": RuleConfig(Rule.exact, 0.1)},
        {"rule": RuleConfig(Rule.tolerance, 0.0)},
    ],
)
def test_settings_change_it(config: DecodeConfig, change: dict[str, object]) -> None:
    changed = dataclasses.replace(config, **change)
    assert provenance.signature(changed) != provenance.signature(config)


def test_the_output_folder_does_not(config: DecodeConfig) -> None:
    moved = dataclasses.replace(config, out="elsewhere")
    assert provenance.signature(moved) == provenance.signature(config)


@pytest.mark.parametrize(
    "file", ["target/model.safetensors", "draft/config.json", "prompt.wav", "reference.wav"]
)
def test_contents_change_it(config: DecodeConfig, tmp_path: Path, file: str) -> None:
    """A retrained model under its old name once looked like a finished run."""
    before = provenance.signature(config)
    (tmp_path / file).write_text("something else")
    assert provenance.signature(config) != before


def test_an_edited_list_changes_it(config: DecodeConfig, tmp_path: Path) -> None:
    before = provenance.signature(config)
    with (tmp_path / "list.jsonl").open("a") as file:
        file.write('{"prompt_audio": "not/there.wav"}\n')
    assert provenance.signature(config) != before


def test_names_and_places_of_the_same_contents_do_not(config: DecodeConfig, tmp_path: Path) -> None:
    for name in ("target", "prompt.wav", "reference.wav", "list.jsonl"):
        copy = shutil.copytree if name == "target" else shutil.copy
        (tmp_path / "moved").mkdir(exist_ok=True)
        copy(tmp_path / name, tmp_path / "moved" / name)
    moved = dataclasses.replace(
        config,
        target=CheckpointConfig("other", str(tmp_path / "moved" / "target")),
        data=ListConfig("other", str(tmp_path / "moved" / "list.jsonl")),
    )
    assert provenance.signature(moved) == provenance.signature(config)


def test_unused_keys_do_not_count_and_need_not_exist(config: DecodeConfig) -> None:
    without = dataclasses.replace(config, draft=CheckpointConfig("x", "/nowhere"), lookahead=9)
    unused = ("draft", "lookahead", "rule.beta")
    assert provenance.signature(without, unused) == provenance.signature(config, unused)
    with pytest.raises(ValueError, match="/nowhere does not exist"):
        provenance.signature(without)


def test_provenance_is_json_and_says_where_a_number_comes_from(
    config: DecodeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/sst-decode", "seed=0"])
    row = json.loads(json.dumps(provenance.provenance(config)))
    assert row["argv"] == ["sst-decode", "seed=0"]
    assert row["config"]["system"] == "speculative"
    assert row["config"]["rule"]["name"] == "exact"
    assert row["seed"] == 0
    assert row["libraries"]["torch"].startswith("2.")
    assert row["hardware"]["cores"] >= 1
    assert row["hardware"]["memory_gib"] > 0
    assert row["date"].endswith("+00:00")


def test_code_version_names_the_commit_of_a_checkout() -> None:
    found = provenance.code_version()
    checkout = (Path(provenance.__file__).parents[1] / ".git").exists()
    assert ("commit" in found) == checkout
    assert not checkout or len(found["commit"]) == 40


def test_an_installed_package_has_no_commit_of_a_repository_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    assert set(provenance.code_version()) == {"version"}


def test_peak_memory_is_this_process_alone() -> None:
    """A large parent does not count: ru_maxrss would hand its peak on to the child."""
    held = bytearray(2**29)
    held[:: 2**12] = b"x" * len(held[:: 2**12])
    script = "from speculative_tts.provenance import peak_gib; print(peak_gib())"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert 0 < float(found.stdout) < 0.4 < provenance.peak_gib()
