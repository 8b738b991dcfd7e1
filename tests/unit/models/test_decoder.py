"""The native decoder against transformers: small random models, every option of all families."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    PretrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

from speculative_tts.models import host
from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.decoder.decoder import Decoder
from speculative_tts.models.decoder.loading import build_decoder, read_state

pytestmark = pytest.mark.usefixtures("kernels")

SMALL = {
    "vocab_size": 50,
    "num_hidden_layers": 3,
    "max_position_embeddings": 256,
    "attn_implementation": "eager",
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def sized(
    family: type[PretrainedConfig], hidden: int, wide: int, heads: tuple[int, int], **more: Any
) -> PretrainedConfig:
    """A small configuration; `heads` are those of queries and those of keys and values."""
    sizes = {"hidden_size": hidden, "intermediate_size": wide, "num_attention_heads": heads[0]}
    return family(**SMALL, **sizes, num_key_value_heads=heads[1], **more)


LEAST: dict[str, Any] = {"num_attention_heads": 2, "num_hidden_layers": 2, "hidden_size": 8}
LEAST |= {"intermediate_size": 8, "vocab_size": 9}
FAST = {"rope_type": "default", "rope_theta": 1e6}
CASES = {
    "qwen2 gqa": sized(Qwen2Config, 64, 96, (4, 2)),
    "qwen2 mha tied": sized(Qwen2Config, 16, 24, (2, 2), tie_word_embeddings=True),
    "qwen2 theta": sized(Qwen2Config, 32, 40, (4, 1), rope_parameters=FAST, rms_norm_eps=1e-5),
    "llama gqa": sized(LlamaConfig, 64, 96, (8, 2)),
    "llama one kv head": sized(LlamaConfig, 32, 40, (4, 1)),
    "llama3 rope, biased, head_dim": sized(
        *(LlamaConfig, 48, 64, (4, 2)), head_dim=16, rope_parameters=LLAMA3, attention_bias=True,
        mlp_bias=True, tie_word_embeddings=True,
    ),
    "qwen3": sized(
        *(Qwen3Config, 32, 40, (4, 2)), head_dim=16, rope_parameters=FAST, tie_word_embeddings=True
    ),
    "qwen3 biased, one kv head, odd head_dim": sized(
        *(Qwen3Config, 96, 56, (3, 1)), head_dim=10, attention_bias=True, rms_norm_eps=1e-3,
        rope_parameters=LLAMA3,
    ),
}  # fmt: skip


def randomise(model: PreTrainedModel) -> PreTrainedModel:
    """Biases and norms start at 0 and 1, where a loader that forgets them would pass."""
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data.add_(noise, alpha=0.3)
    return model.eval()


def pair(name: str, folder: Path) -> tuple[PreTrainedModel, Decoder]:
    config = CASES[name]
    torch.manual_seed(0)
    model = randomise(AutoModelForCausalLM.from_config(config))
    model.save_pretrained(folder)
    return model, loaded(folder)


def loaded(folder: Path) -> Decoder:
    options: dict[str, Any] = {"dtype": torch.float32, "device": torch.device("cpu")}
    return build_decoder(DecoderConfig.from_folder(folder), read_state(folder), **options)


@pytest.mark.parametrize("name", CASES)
@torch.inference_mode()
def test_hidden_states_equal_transformers(name: str, tmp_path: Path) -> None:
    model, native = pair(name, tmp_path)
    ids = torch.randint(0, 50, (2, 70), generator=torch.Generator().manual_seed(0))
    expected = model(ids).logits
    hidden = native.extend(
        model.get_input_embeddings()(ids), native.cache(2, 80), torch.zeros(2, dtype=torch.int64)
    )
    logits = model.lm_head(hidden)
    assert expected.abs().max() > 1  # the comparison is not between zeros
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("way", ["as it is", "reading all of the cache"])
@pytest.mark.parametrize(
    "name",
    [
        *("qwen2 gqa", "qwen2 theta", "llama one kv head", "llama3 rope, biased, head_dim"),
        *("qwen3", "qwen3 biased, one kv head, odd head_dim"),
    ],
)
@torch.inference_mode()
def test_extending_in_pieces_with_ragged_starts_equals_one_pass(
    name: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading all of the cache is a GPU's way.

    Regression: of one key/value head a step of two rows raised a RuntimeError (view of a sum).
    """
    model, native = pair(name, tmp_path)
    monkeypatch.setattr(host, "_fixed", way == "reading all of the cache")
    embed = model.get_input_embeddings()
    ids = torch.randint(0, 50, (2, 40), generator=torch.Generator().manual_seed(0))
    whole = native.extend(embed(ids), native.cache(2, 64), torch.zeros(2, dtype=torch.int64))
    cache = native.cache(2, 64)
    lengths = [17, 9]
    for row, length in enumerate(lengths):
        native.extend(
            embed(ids[row : row + 1, :length]), cache.row(row), torch.zeros(1, dtype=torch.int64)
        )
    start = torch.tensor(lengths)
    # Something that is rolled back must leave no trace.
    native.extend(embed(torch.full((2, 5), 7)), cache, start)
    pieces = torch.stack([ids[row, n : n + 4] for row, n in enumerate(lengths)])
    out = native.extend(embed(pieces), cache, start)
    expected = torch.stack([whole[row, n : n + 4] for row, n in enumerate(lengths)])
    torch.testing.assert_close(out, expected, atol=1e-4, rtol=0)
    for step in range(3):
        at = start + 4 + step
        out = native.extend(embed(ids[torch.arange(2), at])[:, None], cache, at)
        torch.testing.assert_close(out[:, 0], whole[torch.arange(2), at], atol=1e-4, rtol=0)
    alone = native.extend(embed(ids[:1, None, 24]), cache.row(0), start[:1] + 7)  # batch 1, 1 token
    torch.testing.assert_close(alone[0, 0], whole[0, 24], atol=1e-4, rtol=0)


def test_config_of_transformers_4_reads_like_5(tmp_path: Path) -> None:
    config = CASES["llama3 rope, biased, head_dim"]
    config.save_pretrained(tmp_path)
    new = DecoderConfig.from_folder(tmp_path)
    row = json.loads((tmp_path / "config.json").read_text())
    rope = row.pop("rope_parameters")
    old = DecoderConfig.from_dict(
        row | {"rope_theta": rope.pop("rope_theta"), "rope_scaling": rope}
    )
    assert old == new


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "gpt2"}, "model_type 'gpt2' is not supported"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "rope scaling 'yarn'"),
        ({"model_type": "qwen3_moe"}, "model_type 'qwen3_moe' is not supported"),
        ({"use_sliding_window": True, "max_window_layers": 0}, "use_sliding_window"),
        ({"model_type": "qwen3", "layer_types": ["sliding_attention"]}, "layer_types"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
    ],
)
def test_unsupported_options_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DecoderConfig.from_dict(LEAST | {"model_type": "qwen2", "num_hidden_layers": 1} | change)


@pytest.mark.parametrize(
    "change",
    [
        {"use_sliding_window": False, "sliding_window": 4, "max_window_layers": 0},
        {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 2},
        {"use_sliding_window": True, "sliding_window": 4, "layer_types": ["full_attention"] * 2},
    ],
)
def test_windows_that_no_layer_has_are_no_reason_to_refuse(change: dict[str, object]) -> None:
    config = DecoderConfig.from_dict(LEAST | {"model_type": "qwen3"} | change)
    assert (config.head_dim, config.head_norms) == (128, True)  # Qwen3's own, if no key says it


def test_missing_and_corrupt_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"config\.json; give a folder"):
        DecoderConfig.from_folder(tmp_path)
    with pytest.raises(ValueError, match=r"no model\.safetensors"):
        read_state(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"not safetensors")
    with pytest.raises(ValueError, match="not readable as safetensors"):
        read_state(tmp_path)
