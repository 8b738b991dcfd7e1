"""Every tensor of a checkpoint is used, is known to be unneeded, or is refused by name."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

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
from speculative_tts.models.families.code_rows import RowLM
from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.common import CheckpointConfig

GOLDEN = Path(__file__).parents[2] / "golden" / "llasa"
CPU = torch.device("cpu")
State = dict[str, Tensor]
Change = Callable[[State], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN / "model_1b_style", tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN / "model_3b_style", tmp_path / "sharded")
    return tmp_path / "sharded"


def rewrite(folder: Path, change: Change) -> None:
    state = load_file(folder / SINGLE)
    change(state)
    save_file(state, folder / SINGLE)


def load(folder: Path) -> RowLM:
    checkpoint = CheckpointConfig(name="x", path=str(folder))
    return RowLM.load(checkpoint, dtype=torch.float32, device=CPU, text_rows=False)


def logits(folder: Path) -> Tensor:
    model = load(folder)
    prompt = model.prompt(model.prompt_ids(Prompt("Please read it.", voice=torch.arange(5))))
    return model.prefill([prompt], model.cache(1, 300))


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
    folder: Path, tmp_path: Path, quantise: Change
) -> None:
    """Scales were ignored: the checkpoint loaded, decoded, and said garbage in silence."""
    before = logits(folder)
    rewrite(folder, quantise)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    rewrite(copy, dequantised)
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


@pytest.mark.parametrize("quantise", [without_scales, blocks, four_bits, packed_integers])
def test_other_quantised_weights_are_refused_by_name(folder: Path, quantise: Change) -> None:
    rewrite(folder, quantise)
    with pytest.raises(
        ValueError, match=r"model\.layers\.\d\S+weight is \w+, quantised .* dequantise the"
    ):
        load(folder)


def test_quantised_embeddings_are_refused(folder: Path) -> None:
    def change(state: State) -> None:
        state[EMBEDDING] = state[EMBEDDING].to(torch.int8)

    rewrite(folder, change)
    with pytest.raises(ValueError, match=r"embed_tokens\.weight is int8, quantised"):
        stored_rows(folder, 3)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("model.layers.4.mlp.up_proj.weight", (128, 64)),  # of a layer more than config.json says
        ("model.layers.0.self_attn.q_proj.bias", (64,)),
        ("model.layers.0.self_attn.q_norm.weight", (16,)),
        ("lm_head.bias", (600,)),
        ("score.weight", (2, 64)),
    ],
)
def test_a_tensor_that_nobody_reads_is_refused(
    folder: Path, name: str, shape: tuple[int, ...]
) -> None:
    """What a checkpoint held beside what was looked for was dropped in silence."""
    rewrite(folder, lambda state: state.update({name: torch.zeros(shape)}))
    with pytest.raises(ValueError, match=rf"tensors that this model does not have: {name};"):
        load(folder)


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


def test_pickled_weights_name_the_remedy(folder: Path) -> None:
    (folder / SINGLE).rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"may run code; save them as model\.safetensors"):
        load(folder)


def test_a_config_says_no_longer_that_plain_weights_are_quantised(folder: Path) -> None:
    path = folder / "config.json"
    method = {"quantization_config": {"quant_method": "bitsandbytes"}}
    path.write_text(json.dumps(json.loads(path.read_text()) | method))
    assert "quantization_config" not in read_config(folder)
    assert DecoderConfig.from_folder(folder).layers == 4
    path.write_text(path.read_text().replace("bitsandbytes", "gptq"))
    with pytest.raises(ValueError, match=r"config\.json: quantization_config .*gptq.* dequantise"):
        DecoderConfig.from_folder(folder)


def test_a_decoder_takes_all_of_its_state(folder: Path) -> None:
    state = read_state(folder)
    assert HEAD not in state
    options = {"dtype": torch.float32, "device": CPU}
    build_decoder(DecoderConfig.from_folder(folder), state, **options)
    with pytest.raises(ValueError, match=r"does not have: model\.embed_tokens\.weight;"):
        build_decoder(DecoderConfig.from_folder(folder), state, **options, others=())


def test_rope_of_its_own_for_some_layers_is_refused(folder: Path) -> None:
    """Its frequencies were left out in silence, and the default ones used."""
    config = json.loads((folder / "config.json").read_text())
    nested = {"full_attention": {"rope_type": "default", "rope_theta": 5e5}}
    (folder / "config.json").write_text(json.dumps(config | {"rope_parameters": nested}))
    with pytest.raises(ValueError, match=r"config\.json: RoPE of its own for some layers"):
        DecoderConfig.from_folder(folder)
