"""Checkpoints as hubs, copies and trainers leave them: all of it used, or one line that names what.

Every tensor is read, is known to be unneeded, or is refused by name.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.decoder.loading import (
    EMBEDDING,
    HEAD,
    build_decoder,
    read_config,
    read_state,
    stored_rows,
)
from speculative_tts.models.decoder.weight_files import INDEX, SINGLE
from speculative_tts.models.families.registry import load_speech_lm
from speculative_tts.models.prompt import Prompt
from speculative_tts.models.speech_lm import SpeechLM
from speculative_tts.schema.common import CheckpointConfig

GOLDEN = Path(__file__).parents[2] / "golden" / "llasa"
CPU = torch.device("cpu")
UP = "model.layers.0.mlp.up_proj.weight"
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 5368709120\n"
State = dict[str, Tensor]
Change = Callable[[Path], Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "model_1b_style", tmp_path / "model"))


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "model_3b_style", tmp_path / "sharded"))


def load(folder: Path) -> SpeechLM:
    config = CheckpointConfig(name="x", path=str(folder))
    return load_speech_lm(config, dtype=torch.float32, device=CPU, text_rows=False)


def logits(folder: Path) -> Tensor:
    model = load(folder)
    prompt = model.prompt(model.prompt_ids(Prompt("Please read it.", voice=torch.arange(5))))
    return model.prefill([prompt], model.cache(1, 300))


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


def tensors(change: Callable[[State], Any]) -> Change:
    """Change the stored tensors."""

    def apply(folder: Path) -> None:
        state = load_file(folder / SINGLE)
        change(state)
        save_file(state, folder / SINGLE)

    return apply


def looping(folder: Path) -> None:
    (folder / SINGLE).unlink()
    (folder / SINGLE).symlink_to(SINGLE)


def adapter_alone(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')


def indexed(name: str) -> Change:
    """Add an index that says where a tensor is."""

    def change(folder: Path) -> None:
        here = (folder / SINGLE).rename(folder / "model-00001-of-00002.safetensors")
        index = dict.fromkeys(load_file(here), here.name) | {UP: name}
        (folder / INDEX).write_text(json.dumps({"weight_map": index}))

    return change


def linears(state: State) -> list[str]:
    return [name for name in state if name.endswith("_proj.weight")]


def fp8(state: State) -> None:
    """As compressed-tensors writes it, a scale a matrix, of which some are a row's."""
    for name in linears(state):
        weight = state[name].float()
        rows = weight.abs().amax(1, keepdim=True) / 448
        scale = rows if "mlp" in name else rows.max().reshape(1)
        state[name] = (weight / scale).to(torch.float8_e4m3fn)
        state[f"{name}_scale"] = scale
        state[name.replace("weight", "input_scale")] = torch.ones(1)


def int8(state: State) -> None:
    """As bitsandbytes writes it."""
    for name in linears(state):
        weight = state[name].float()
        scale = weight.abs().amax(1)
        state[name] = (weight / scale[:, None] * 127).round().to(torch.int8)
        state[name.replace("weight", "SCB")] = scale
        state[name.replace("weight", "weight_format")] = torch.tensor(0, dtype=torch.uint8)


def fp8_blocks(state: State) -> None:
    """As DeepSeek and Qwen3 write it: a scale multiplies a block of 128 x 128, none is larger."""
    for name in linears(state):
        weight = state[name].float()
        scale = weight.abs().max() / 448
        state[name] = (weight / scale).to(torch.float8_e4m3fn)
        state[f"{name}_scale_inv"] = scale.reshape(1, 1)


def dequantised(state: State) -> None:
    """The same numbers as plain ones, by hand."""
    for name in linears(state):
        stem = name.removesuffix("weight")
        if (block := state.pop(f"{name}_scale_inv", None)) is not None:
            state[name] = state[name].float() * block
            continue
        scale = state.pop(f"{stem}SCB", None)
        if scale is None:
            scale = state.pop(f"{name}_scale").reshape(-1, 1)
            state[name] = state[name].float() * scale
        else:
            state[name] = state[name].float() * scale[:, None] / 127
        state.pop(f"{stem}input_scale", None)
        state.pop(f"{stem}weight_format", None)


@pytest.mark.parametrize("quantise", [fp8, int8, fp8_blocks])
def test_quantised_weights_speak_as_their_dequantised_copy(
    folder: Path, tmp_path: Path, quantise: Callable[[State], None]
) -> None:
    """Scales were ignored: the checkpoint loaded, decoded, and said garbage in silence."""
    before = logits(folder)
    tensors(quantise)(folder)
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    tensors(dequantised)(copy)
    found = logits(folder)
    torch.testing.assert_close(found, logits(copy), rtol=0, atol=1e-5)
    assert not torch.equal(found, before)
    assert torch.nn.functional.cosine_similarity(found, before) > 0.9  # near the original


def without_scales(state: State) -> None:
    fp8(state)
    for name in [name for name in state if name.endswith("weight_scale")]:
        del state[name]


def blocks(state: State) -> None:
    """Blocks of another size than 128."""
    name = linears(state)[0]
    state[name] = state[name].to(torch.float8_e4m3fn)
    state[f"{name}_scale_inv"] = torch.ones(2, 2)


def four_bits(state: State) -> None:
    name = linears(state)[0]
    state[name] = torch.zeros(state[name].numel() // 2, 1, dtype=torch.uint8)


def packed_integers(state: State) -> None:
    """As GPTQ."""
    name = linears(state)[0]
    state[name.replace("weight", "qweight")] = state.pop(name).to(torch.int32)


QUANTISED = r"model\.layers\.\d\S+weight is \w+, quantised .* dequantise the"
UNREAD = {
    "model.layers.4.mlp.up_proj.weight": (128, 64),  # of a layer more than config.json says
    "model.layers.0.self_attn.q_proj.bias": (64,),
    "model.layers.0.self_attn.q_norm.weight": (16,),
    "lm_head.bias": (600,),
    "score.weight": (2, 64),
}
NESTED = {"full_attention": {"rope_type": "default", "rope_theta": 5e5}}
REFUSED: list[tuple[Change, str]] = [
    *(
        (tensors(change), QUANTISED)
        for change in (without_scales, blocks, four_bits, packed_integers)
    ),
    # what a checkpoint held beside what was looked for was dropped in silence
    *(
        (
            tensors(lambda one, name=name, shape=shape: one.update({name: torch.zeros(shape)})),
            rf"tensors that this model does not have: {name};",
        )
        for name, shape in UNREAD.items()
    ),
    # its frequencies were left out in silence, and the default ones used
    (setting(rope_parameters=NESTED), r"config\.json: RoPE of its own for some layers"),
    (
        setting(quantization_config={"quant_method": "gptq"}),
        r"config\.json: quantization_config .*gptq.* dequantise",
    ),
    (
        lambda folder: (folder / SINGLE).rename(folder / "pytorch_model.bin"),
        r"may run code; save them as model\.safetensors",
    ),
    (
        appending(', "rms_norm_eps": 0.1, "rms_norm_eps": 0.2'),
        r"config\.json .*\"rms_norm_eps\"",
    ),
    (setting(rope_theta=float("inf")), r"config\.json: rope_theta inf is not a finite number"),
    (setting(initializer_range=float("nan")), "initializer_range.*got nan"),
    (setting(model_type=["llama"]), r"config\.json: model_type is \[\"llama\"\]|no speech LM"),
    (lambda folder: (folder / SINGLE).write_text(LFS), r"safetensors is not readable .* copy"),
    (looping, "model.safetensors"),
    (lambda folder: (folder / "adapter_config.json").write_text("{}"), "holds an adapter"),
    (adapter_alone, r"model holds an adapter .*merge_and_unload"),
    (indexed("model-00002-of-00002.safetensors"), r"00002-of-00002\.safetensors .* copy it"),
    (
        tensors(lambda one: one.update({UP: one[UP][1:].clone()})),
        rf"model: {UP} is \(127, 64\),",
    ),
    (
        tensors(lambda one: one.update({UP: one[UP].to(torch.complex64)})),
        "up_proj.* is complex64",
    ),
    (lambda folder: (folder / "tokenizer.json").unlink(), r"tokenizer in .* copy them"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_what_cannot_be_read_is_one_line(folder: Path, change: Change, message: str) -> None:
    """NaN in a key that nobody needs, and an adapter by itself, were a traceback and a riddle."""
    change(folder)
    with pytest.raises((ValueError, OSError), match=message) as error:
        load(folder)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: torch.save({"x": torch.zeros(1)}, folder / "pytorch_model.bin"),
        lambda folder: (folder / INDEX).write_text(
            json.dumps({"weight_map": dict.fromkeys(load_file(folder / SINGLE), SINGLE)})
        ),
        tensors(lambda one: one.update({key: value.double() for key, value in one.items()})),
        tensors(lambda one: one.setdefault("lm_head.weight", one["model.embed_tokens.weight"] + 0)),
    ],
)
def test_what_changes_nothing_changes_nothing(folder: Path, change: Change) -> None:
    before = logits(folder)
    change(folder)
    torch.testing.assert_close(logits(folder), before, rtol=0, atol=0)


def test_quantised_embeddings_are_refused(folder: Path) -> None:
    tensors(lambda state: state.update({EMBEDDING: state[EMBEDDING].to(torch.int8)}))(folder)
    with pytest.raises(ValueError, match=r"embed_tokens\.weight is int8, quantised"):
        stored_rows(folder, 3)


@pytest.mark.parametrize(
    "text",
    [
        '{"weight_map": {',
        '{"metadata": {}}',
        "[]",
        '{"weight_map": null}',
        '{"weight_map": {"a": 5}}',
        '{"weight_map": {}}',
        '{"weight_map": {"a": "../elsewhere.safetensors"}}',
        '{"weight_map": {"a": "b", "a": "c"}}',
    ],
)
def test_an_odd_index_is_named_with_its_remedy(sharded: Path, text: str) -> None:
    """It was a KeyError, a TypeError, or a message without the file."""
    (sharded / INDEX).write_text(text)
    for read in (read_state, lambda folder: stored_rows(folder, 3)):
        with pytest.raises(ValueError, match=r"index\.json.*; (copy it from|give )"):
            read(sharded)


def test_shards_hold_what_their_index_names(sharded: Path) -> None:
    index = json.loads((sharded / INDEX).read_text())
    index["weight_map"]["model.lost"] = min(index["weight_map"].values())
    (sharded / INDEX).write_text(json.dumps(index))
    with pytest.raises(ValueError, match=r"index\.json names model\.lost, which no shard has"):
        read_state(sharded)
    first, second = sorted(sharded.glob("*.safetensors"))
    save_file(load_file(first) | load_file(second), second)
    with pytest.raises(ValueError, match="is in another shard too; copy it"):
        read_state(sharded)


def test_a_config_says_no_longer_that_plain_weights_are_quantised(folder: Path) -> None:
    setting(quantization_config={"quant_method": "bitsandbytes"})(folder)
    assert "quantization_config" not in read_config(folder)
    assert DecoderConfig.from_folder(folder).layers == 4


def test_a_decoder_takes_all_of_its_state(folder: Path) -> None:
    state = read_state(folder)
    assert HEAD not in state
    options = {"dtype": torch.float32, "device": CPU}
    build_decoder(DecoderConfig.from_folder(folder), state, **options)
    with pytest.raises(ValueError, match=r"does not have: model\.embed_tokens\.weight;"):
        build_decoder(DecoderConfig.from_folder(folder), state, **options, others=())
