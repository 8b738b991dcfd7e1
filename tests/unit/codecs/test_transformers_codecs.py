"""X-Codec2 and NeuCodec: plumbing on random little models of transformers' own classes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import NeuCodecConfig, NeuCodecModel, Xcodec2Config, Xcodec2Model

from speculative_tts.codecs.fsq import digits
from speculative_tts.codecs.neucodec import NeuCodec
from speculative_tts.codecs.registry import load_codec
from speculative_tts.codecs.xcodec2 import Xcodec2, semantic_features

SEMANTIC = {
    "model_type": "wav2vec2-bert",
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "feature_projection_input_dim": 160,
    "conv_depthwise_kernel_size": 3,
    "add_adapter": False,
}
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "encoder_hidden_size": 2,
    "quantization_dim": 48,
    "quantization_levels": [4, 4, 4],
    "semantic_model_config": SEMANTIC,
}
KINDS: dict[str, Any] = {
    "xcodec2": (Xcodec2Config, Xcodec2Model, 16_000),
    "neucodec": (NeuCodecConfig, NeuCodecModel, 24_000),
}


@pytest.mark.parametrize("name", KINDS)
def test_waves_become_codes_and_back(name: str, tmp_path: Path) -> None:
    config, model, rate = KINDS[name]
    torch.manual_seed(0)
    model(config(**SIZES)).save_pretrained(tmp_path)
    codec = load_codec(name, tmp_path)
    assert isinstance(codec, NeuCodec if name == "neucodec" else Xcodec2)
    assert (codec.sample_rate, codec.token_rate, codec.n_codes) == (rate, 50.0, 64)
    wave = np.sin(np.arange(rate // 2) / 20).astype(np.float32)
    codes = codec.encode(wave)
    assert codes.dtype == np.int64
    assert len(codes) in {25, 26}  # half a second; the branches of NeuCodec drop the last
    assert codec.decode(codes).shape == (len(codes) * rate // 50,)
    assert len(codec.decode(codes[:0])) == 0
    with pytest.raises(ValueError, match=r"codes must lie in \[0, 64\)"):
        codec.decode(np.array([64]))


def rms(wave: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(wave, dtype=np.float64))))


def test_llasas_speech_goes_on_from_its_prompt() -> None:
    """New codes alone begin in another way: the decoder looks both ways (it was done so).

    Relative difference of both waves: the first two codes, and half a second later. Random weights
    of X-Codec2's own architecture, 12 layers, 16 heads: 0.99 and 0.23.
    """
    torch.manual_seed(0)
    wide = {"hidden_size": 64, "num_hidden_layers": 12, "num_attention_heads": 16}
    wide |= {"num_key_value_heads": 16, "head_dim": 4, "quantization_dim": 80}
    codec = Xcodec2(Xcodec2Model(Xcodec2Config(**{**SIZES, **wide})).eval())
    rng = np.random.default_rng(0)
    prompt, codes = rng.integers(0, 64, 50), rng.integers(0, 64, 60)
    wave, alone = codec.decode_as(codes, prompt), codec.decode(codes)
    assert len(wave) == len(alone) == 320 * 60
    whole = codec.decode(np.concatenate([prompt, codes]))
    np.testing.assert_array_equal(wave, whole[320 * 50 :])
    onset, later = (
        rms((wave - alone)[part]) / rms(wave[part]) for part in (slice(0, 640), slice(8000, None))
    )
    assert onset > 0.3
    assert onset > 3 * later
    np.testing.assert_array_equal(codec.decode_as(codes, prompt[:0]), alone)


def test_neutts_decodes_new_codes_alone_as_its_authors_do() -> None:
    torch.manual_seed(0)
    codec = NeuCodec(NeuCodecModel(NeuCodecConfig(**SIZES)).eval())
    codes = np.arange(20)
    np.testing.assert_array_equal(codec.decode_as(codes, np.arange(30)), codec.decode(codes))


def test_features_are_normalised_bands_of_two_frames() -> None:
    rng = np.random.default_rng(0)
    features = semantic_features(rng.normal(size=3200).astype(np.float32), margin=160)
    assert features.shape == (10, 160)
    frames = features.reshape(20, 80)
    np.testing.assert_allclose(frames.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(frames.std(0, ddof=1), 1, atol=1e-3)


def test_digits_write_the_code() -> None:
    codes = np.array([0, 1, 4, 65_535])
    assert (digits(codes) * 4 ** np.arange(8)).sum(1).tolist() == codes.tolist()


@pytest.mark.parametrize("name", KINDS)
def test_another_folder_is_named_with_what_was_looked_for(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"no {name} checkpoint .* looked for config.json"):
        load_codec(name, tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "encodec"}))
    with pytest.raises(ValueError, match=r"give codec\.path=<folder of "):
        load_codec(name, tmp_path)


def changed(state: dict[str, torch.Tensor], how: str) -> dict[str, torch.Tensor]:
    name = next(name for name in state if name.endswith("weight") and state[name].ndim == 2)
    if how == "extra":
        return state | {"lora.weight": torch.ones(2, 2)}
    if how == "lost":
        return {key: tensor for key, tensor in state.items() if key != name}
    other = {"int8": state[name].to(torch.int8), "shape": state[name][1:].clone()}
    return state | {name: other[how]}


@pytest.mark.parametrize("how", ["extra", "lost", "int8", "shape"])
@pytest.mark.parametrize("name", KINDS)
def test_a_folder_that_does_not_fit_is_refused(name: str, how: str, tmp_path: Path) -> None:
    """transformers draws what is lost, drops what is more, takes integers without their scales."""
    config, model, _ = KINDS[name]
    model(config(**SIZES)).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    save_file(changed(load_file(file), how), file, metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"codec\.path=<folder of"):
        load_codec(name, tmp_path)
