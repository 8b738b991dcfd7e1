"""Folders as hubs, copies and trainers leave them: whole, or one line that names the file."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from speculative_tts.models.families.registry import load_speech_lm
from speculative_tts.schema.common import CheckpointConfig

GOLDEN = Path(__file__).parents[2] / "golden" / "llasa"
Change = Callable[[Path], Any]
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
UP = "model.layers.0.mlp.up_proj.weight"
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 5368709120\n"


def said(folder: Path) -> torch.Tensor:
    """Return a checkpoint's logits after some codes."""
    config = CheckpointConfig(name="x", path=str(folder))
    device = torch.device("cpu")
    model = load_speech_lm(config, dtype=torch.float32, device=device, text_rows=False)
    return model.prefill([model.embed(torch.arange(5))], model.cache(1, 16))


def setting(**keys: Any) -> Change:
    """Change keys of config.json."""

    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | keys))

    return change


def appending(text: str) -> Change:
    """Write further keys at the end of config.json, as a careless editor does."""

    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(path.read_text().rstrip().removesuffix("}") + text + "}")

    return change


def tensors(change: Callable[[dict[str, torch.Tensor]], Any]) -> Change:
    """Change the stored tensors."""

    def apply(folder: Path) -> None:
        state = load_file(folder / WEIGHTS)
        change(state)
        save_file(state, folder / WEIGHTS)

    return apply


def looping(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).symlink_to(WEIGHTS)


def adapter_alone(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')


def indexed(name: str) -> Change:
    """Add an index that says where a tensor is."""

    def change(folder: Path) -> None:
        (folder / WEIGHTS).rename(folder / "model-00001-of-00002.safetensors")
        index = dict.fromkeys(state(), "model-00001-of-00002.safetensors") | {UP: name}
        (folder / INDEX).write_text(json.dumps({"weight_map": index}))

    return change


def state() -> dict[str, torch.Tensor]:
    return load_file(GOLDEN / "model_1b_style" / WEIGHTS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "model_1b_style", tmp_path / "model"))


def test_every_change_is_of_a_folder_that_loads(folder: Path) -> None:
    assert said(folder).isfinite().all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            appending(', "rms_norm_eps": 0.1, "rms_norm_eps": 0.2'),
            r"config\.json .*\"rms_norm_eps\"",
        ),
        (setting(rope_theta=float("inf")), r"config\.json: rope_theta inf is not a finite number"),
        (setting(initializer_range=float("nan")), "initializer_range.*got nan"),
        (setting(model_type=["llama"]), r"config\.json: model_type is \[\"llama\"\]|no speech LM"),
        (lambda folder: (folder / WEIGHTS).write_text(LFS), r"safetensors is not readable .* copy"),
        (looping, "model.safetensors"),
        (lambda folder: (folder / "adapter_config.json").write_text("{}"), "holds an adapter"),
        (adapter_alone, r"model holds an adapter .*merge_and_unload"),
        (indexed("model-00002-of-00002.safetensors"), r"00002-of-00002\.safetensors .* copy it"),
        (
            indexed("../../model.safetensors"),
            r"index\.json names '../../model\.safetensors', no fil",
        ),
        (tensors(lambda one: one.pop(UP)), rf"model has no tensor {UP}; config\.json and weights"),
        (
            tensors(lambda one: one.update({UP: one[UP][1:].clone()})),
            rf"model: {UP} is \(127, 64\),",
        ),
        (
            tensors(lambda one: one.update({UP + "_zero_point": one[UP] + 0})),
            "does not have: .*zero_po",
        ),
        (
            tensors(lambda one: one.update({UP: one[UP].to(torch.complex64)})),
            "up_proj.* is complex64",
        ),
        (lambda folder: (folder / "tokenizer.json").unlink(), r"tokenizer in .* copy them"),
    ],
)
def test_what_cannot_be_read_is_one_line(folder: Path, change: Change, message: str) -> None:
    """NaN in a key that nobody needs, and an adapter by itself, were a traceback and a riddle."""
    change(folder)
    with pytest.raises((ValueError, OSError), match=message) as error:
        said(folder)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: torch.save({"x": torch.zeros(1)}, folder / "pytorch_model.bin"),
        lambda folder: (folder / INDEX).write_text(
            json.dumps({"weight_map": dict.fromkeys(state(), WEIGHTS)})
        ),
        tensors(lambda one: one.update({key: value.double() for key, value in one.items()})),
        tensors(lambda one: one.setdefault("lm_head.weight", one["model.embed_tokens.weight"] + 0)),
        tensors(
            lambda one: one.update({"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)})
        ),
        setting(unknown_key={"a": [1]}),
    ],
)
def test_what_changes_nothing_changes_nothing(folder: Path, change: Change) -> None:
    before = said(folder)
    change(folder)
    torch.testing.assert_close(said(folder), before, rtol=0, atol=0)
