"""X-Codec2 and NeuCodec: plumbing on random little models of transformers' own classes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
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
