"""A folder that transformers loads gives transformers' logits, or one line that says why not.

Shapes, options and faults are drawn together: what is here was meant for other programs, so that
nothing of it may be left out in silence.
"""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from examples import examples
from hypothesis import assume, given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config
from transformers.utils import logging

from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.decoder.loading import build_decoder, read_state, state_matrices

CPU = torch.device("cpu")
VOCAB = 11
ROPES: list[dict[str, Any] | None] = [
    None,
    {"rope_type": "default", "rope_theta": 1e5},
    {"rope_type": "linear", "factor": 2.0},
    {"rope_type": "dynamic", "factor": 2.0},
    {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    },
]
EXTRA: list[dict[str, Any]] = [
    {},
    {"rope_theta": 5e3},
    {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    {"partial_rotary_factor": 0.5},
    {"sliding_window": 2, "use_sliding_window": True, "max_window_layers": 0},
    {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 2},
    {"hidden_act": "gelu"},
    {"attention_dropout": 0.5, "pretraining_tp": 2, "unknown_to_all": 1},
    {"num_key_value_heads": None},
    {"use_sliding_window": True, "sliding_window": 2, "max_window_layers": 2},
    {"use_sliding_window": True, "sliding_window": 2, "layer_types": ["full_attention"] * 2},
    {"attention_bias": True},
    {"mlp_bias": True},
    {"head_dim": None},
]
Config = LlamaConfig | Qwen2Config | Qwen3Config
Change = Callable[[dict[str, Tensor]], None]


def more_layers(state: dict[str, Tensor]) -> None:
    for name in [name for name in state if ".layers.1." in name]:
        state[name.replace(".1.", ".2.", 1)] = state[name].clone()


def inverse_frequencies(state: dict[str, Tensor]) -> None:
    state["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(2)


def halved(state: dict[str, Tensor]) -> None:
    state |= {name: tensor.bfloat16() for name, tensor in state.items()}


def own_head(state: dict[str, Tensor]) -> None:
    state["lm_head.weight"] = torch.full_like(state["model.embed_tokens.weight"], 0.1)


def lost(state: dict[str, Tensor]) -> None:
    del state["model.layers.1.self_attn.k_proj.weight"]


def unchanged(_: dict[str, Tensor]) -> None:
    pass


CHANGES: list[Change] = [unchanged, more_layers, inverse_frequencies, halved, own_head, lost]


@st.composite
def configs(draw: st.DrawFn) -> Config:
    heads = draw(st.sampled_from([2, 4]))
    options: dict[str, Any] = {
        "vocab_size": VOCAB,
        "hidden_size": 16,
        "intermediate_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": draw(st.sampled_from([1, 2, heads])),
        "head_dim": draw(st.sampled_from([4, 8])),
        "rms_norm_eps": draw(st.sampled_from([1e-6, 1e-3])),
        "tie_word_embeddings": draw(st.booleans()),
        "rope_parameters": draw(st.sampled_from(ROPES)),
        "max_position_embeddings": 32,
    }
    kind = draw(st.sampled_from([LlamaConfig, Qwen2Config, Qwen3Config]))
    if kind is Qwen2Config:
        return Qwen2Config(**options)
    options["attention_bias"] = draw(st.booleans())
    if kind is Qwen3Config:
        return Qwen3Config(**options)
    return LlamaConfig(**options, mlp_bias=draw(st.booleans()))


def write(folder: Path, config: Config, extra: dict[str, Any], change: Change) -> None:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn(parameter.shape), alpha=0.3)
    model.save_pretrained(folder)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | extra))
    state = load_file(folder / "model.safetensors")
    change(state)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


def ours(folder: Path, ids: Tensor) -> Tensor:
    config, state = DecoderConfig.from_folder(folder), read_state(folder)
    embedding, head = state_matrices(config, state, folder)
    decoder = build_decoder(config, state, dtype=torch.float32, device=CPU)
    start = torch.zeros(1, dtype=torch.int64)
    hidden = decoder.extend(embedding.float()[ids][None], decoder.cache(1, len(ids)), start)
    return hidden[0] @ head.float().T


def theirs(folder: Path, ids: Tensor) -> Tensor | None:
    """Logits of transformers; None where it does not load the folder, or says that parts lack."""
    try:
        model, told = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True
        )
    except Exception:  # noqa: BLE001 - whatever keeps transformers from loading it
        return None
    if told["missing_keys"] or told["mismatched_keys"]:
        return None
    return model.eval()(ids[None]).logits[0]


@pytest.fixture(autouse=True, scope="module")
def quiet() -> None:
    logging.set_verbosity_error()
    logging.disable_progress_bar()


def refused(folder: Path) -> str:
    """Why a folder is refused, in one line with a remedy; empty if the logits are transformers'."""
    ids = torch.arange(9) % VOCAB
    try:
        found = ours(folder, ids)
    except ValueError as error:
        why = str(error)
    else:
        wanted = theirs(folder, ids)
        assert wanted is not None, "read here, and not by transformers"
        torch.testing.assert_close(found, wanted, rtol=0, atol=2e-4)
        return ""
    assert "\n" not in why
    assert ";" in why
    return why


@given(configs(), st.sampled_from(EXTRA), st.sampled_from(CHANGES))
@examples(60)
@torch.inference_mode()
def test_transformers_logits_or_one_line(
    config: Config, extra: dict[str, Any], change: Change
) -> None:
    # transformers itself falls over a null head_dim of a Qwen; Llama's is the width over the heads
    assume(extra != {"head_dim": None} or isinstance(config, LlamaConfig))
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), config, extra, change)
        refused(Path(folder))


PLAIN = LlamaConfig(
    vocab_size=VOCAB,
    hidden_size=16,
    intermediate_size=12,
    num_hidden_layers=2,
    num_attention_heads=2,
    tie_word_embeddings=True,
)


@pytest.mark.parametrize(
    ("extra", "change", "message"),
    [
        ({}, unchanged, ""),
        ({"pretraining_tp": 2}, inverse_frequencies, ""),
        ({}, halved, ""),
        ({}, own_head, ""),
        ({}, more_layers, "does not have: model.layers.2"),
        ({}, lost, "no tensor model.layers.1"),
        ({"partial_rotary_factor": 0.5}, unchanged, "partial_rotary_factor"),
        ({"rope_theta": 5e3}, unchanged, "say different things"),
        ({"layer_types": ["sliding_attention"] * 2}, unchanged, "sliding windows"),
    ],
)
@torch.inference_mode()
def test_what_is_read_and_what_is_refused(
    tmp_path: Path, extra: dict[str, Any], change: Change, message: str
) -> None:
    """More layers, another RoPE or a window in config.json were left out in silence."""
    write(tmp_path, PLAIN, extra, change)
    why = refused(tmp_path)
    assert message in why
    assert bool(message) == bool(why)
