"""OpenAI's Whisper beside transformers': one tiny random checkpoint, converted both ways."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

from speculative_tts.evaluation.judges.openai_whisper import FILE, SHA256, OpenaiWhisper
from speculative_tts.evaluation.registry import RECOGNISERS, build_local
from speculative_tts.schema.evaluate import JudgesConfig, Recogniser

whisper = pytest.importorskip("whisper", reason="openai-whisper is in the extra papers")
NOISE = np.random.default_rng(0).normal(0, 0.1, 24_000).astype(np.float32)
SIZES = {"n_audio_ctx": 1500, "n_audio_state": 16, "n_audio_head": 2, "n_audio_layer": 2}
SIZES |= {"n_mels": 80, "n_vocab": 51_865, "n_text_ctx": 32}
SIZES |= {"n_text_state": 16, "n_text_head": 2, "n_text_layer": 2}
NAMES = (  # OpenAI's, transformers'
    (".blocks.", ".layers."),
    (".attn_ln.", ".self_attn_layer_norm."),
    (".cross_attn_ln.", ".encoder_attn_layer_norm."),
    (".mlp_ln.", ".final_layer_norm."),
    (".attn.", ".self_attn."),
    (".cross_attn.", ".encoder_attn."),
    (".query.", ".q_proj."),
    (".key.", ".k_proj."),
    (".value.", ".v_proj."),
    (".out.", ".out_proj."),
    (".mlp.0.", ".fc1."),
    (".mlp.2.", ".fc2."),
    ("encoder.ln_post.", "encoder.layer_norm."),
    ("decoder.ln.", "decoder.layer_norm."),
    ("token_embedding.", "embed_tokens."),
)


def renamed(state: dict[str, Tensor], there: int) -> dict[str, Tensor]:
    """Names of transformers (there = 1) or of OpenAI (0)."""
    out = {}
    for name, tensor in state.items():
        new = name
        for pair in NAMES:
            new = new.replace(pair[1 - there], pair[there])
        table = (r"positional_embedding$", r"embed_positions.weight$")
        new = re.sub(table[1 - there], table[there].rstrip("$"), new)
        out[new] = tensor
    return out


@pytest.fixture(scope="module")
def official() -> Any:
    torch.manual_seed(0)
    model = whisper.model.Whisper(whisper.model.ModelDimensions(**SIZES)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


@pytest.fixture(scope="module")
def converted(official: Any) -> WhisperForConditionalGeneration:
    config = WhisperConfig(
        vocab_size=51_865,
        num_mel_bins=80,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=1500,
        max_target_positions=32,
    )
    model = WhisperForConditionalGeneration(config).eval()
    state = {f"model.{name}": t for name, t in renamed(official.state_dict(), 1).items()}
    state["proj_out.weight"] = state["model.decoder.embed_tokens.weight"]
    model.load_state_dict(state)
    return model


def features(wave: np.ndarray) -> Tensor:
    """OpenAI's front end: [1, mels, 3000]."""
    return whisper.log_mel_spectrogram(whisper.pad_or_trim(torch.from_numpy(wave)))[None]


@torch.inference_mode()
def test_both_hear_the_same(official: Any, converted: WhisperForConditionalGeneration) -> None:
    ours = WhisperFeatureExtractor(feature_size=80)(
        NOISE, sampling_rate=16_000, return_tensors="pt"
    ).input_features
    torch.testing.assert_close(ours, features(NOISE), atol=1e-3, rtol=0)
    tokens = torch.tensor([[50_258, 50_259, 50_359, 50_363, 11, 2221, 13]])
    theirs = official(features(NOISE), tokens)
    logits = converted(input_features=ours, decoder_input_ids=tokens).logits
    torch.testing.assert_close(logits, theirs, atol=2e-3, rtol=1e-3)
    assert logits.argmax(-1).equal(theirs.argmax(-1))


def test_a_checkpoint_goes_there_and_back(
    official: Any, converted: WhisperForConditionalGeneration
) -> None:
    state = {name.removeprefix("model."): t for name, t in converted.state_dict().items()}
    state.pop("proj_out.weight")
    back = renamed(state, 0)
    expected = official.state_dict()
    assert back.keys() == expected.keys()
    assert all(back[name].equal(expected[name]) for name in expected)


# The package leaves its own files open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_the_judge_hears_by_the_official_package(official: Any, tmp_path: Path) -> None:
    torch.save({"dims": SIZES, "model_state_dict": official.state_dict()}, tmp_path / FILE)
    config = JudgesConfig(recogniser=Recogniser.openai_whisper, openai_whisper=str(tmp_path))
    judge = build_local(OpenaiWhisper, config)
    assert judge.missing() is None
    assert judge.options["engine"] == "openai-whisper"
    assert judge.version.startswith("openai-whisper 20")
    transcribe = judge.load()
    assert transcribe(NOISE) == transcribe(NOISE)
    assert isinstance(transcribe(np.zeros(1600, np.float32)), str)
    assert (
        judge.normaliser()("Mister Smith's colour is twenty-five") == "mister smith is color is 25"
    )


def test_the_published_file_is_the_packages_own() -> None:
    assert SHA256 in whisper._MODELS["large-v3"]
    assert Recogniser.openai_whisper in RECOGNISERS
