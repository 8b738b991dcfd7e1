"""CosyVoice's codec with stand-ins for the tokenizer and the official repository."""

import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import WhisperFeatureExtractor

from speculative_tts.codecs.cosyvoice import CosyVoiceCodec, log_mel
from speculative_tts.codecs.registry import load_codec

RATE = 24_000


class Frontend:
    def _extract_speech_feat(self, path: str) -> tuple[torch.Tensor, torch.Tensor]:
        assert Path(path).is_file()
        return torch.zeros(1, 51, 80), torch.tensor([51])

    def _extract_spk_embedding(self, path: str) -> torch.Tensor:
        return torch.full((1, 192), 0.5)


class Model:
    def __init__(self) -> None:
        self.hift_cache_dict: dict[str, object] = {}
        self.calls: list[dict[str, object]] = []

    def token2wav(self, **arguments: object) -> torch.Tensor:
        assert self.hift_cache_dict[str(arguments["uuid"])] is None
        self.calls.append(arguments)
        token = arguments["token"]
        assert isinstance(token, torch.Tensor)
        return torch.ones(1, 960 * token.shape[1])


class AutoModel:
    def __init__(self, model_dir: str) -> None:
        self.frontend, self.model = Frontend(), Model()


@pytest.fixture
def codec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CosyVoiceCodec:
    """Its tokenizer gives a code for each four mel frames."""
    (tmp_path / "speech_tokenizer_v2.onnx").touch()
    made = load_codec("cosyvoice", tmp_path)
    assert isinstance(made, CosyVoiceCodec)
    monkeypatch.setattr(made, "_tokens", lambda mel: list(range(mel.shape[1] // 4)))
    return made


def official(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("cosyvoice", "cosyvoice.cli", "cosyvoice.cli.cosyvoice")
    package, cli, module = (types.ModuleType(name) for name in names)
    module.AutoModel = AutoModel  # type: ignore[attr-defined]
    cli.cosyvoice = module  # type: ignore[attr-defined]
    for name, part in zip(names, (package, cli, module), strict=True):
        monkeypatch.setitem(sys.modules, name, part)


def test_a_prompt_gives_codes_and_its_voice_speaks(
    codec: CosyVoiceCodec, monkeypatch: pytest.MonkeyPatch
) -> None:
    official(monkeypatch)
    prompt = codec.encode(np.zeros(RATE))
    assert len(prompt) == 25
    wave = codec.decode_as(np.arange(10), prompt)
    assert wave.shape == (9600,)
    (call,) = codec._official.model.calls
    assert call["token"].shape == (1, 10)
    assert call["prompt_token"].shape == (1, 25)
    assert call["prompt_feat"].shape == (1, 50, 80)  # two frames a code
    assert call["finalize"] is True
    assert codec.decode(prompt).shape == (24_000,)
    with pytest.raises(ValueError, match="were not encoded by this codec"):
        codec.decode_as(np.arange(10), np.arange(3))


def test_without_the_official_repository_it_says_how_to_get_it(
    codec: CosyVoiceCodec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cosyvoice", None)
    with pytest.raises(ValueError, match=r"git clone --recursive https://github\.com/FunAudioLLM"):
        codec.decode(codec.encode(np.zeros(RATE)))


def test_what_is_missing_is_named(codec: CosyVoiceCodec, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"looked for speech_tokenizer_v2\.onnx"):
        CosyVoiceCodec.load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"31\.0 s of speech is above the tokenizer's 30 s"):
        codec.encode(np.zeros(31 * RATE))


def test_frames_are_whispers() -> None:
    """transformers' extractor without its padding to 30 s."""
    wave = np.random.default_rng(0).standard_normal(16_000).astype(np.float32) * 0.1
    extractor = WhisperFeatureExtractor(feature_size=128)
    expected = extractor._np_extract_fbank_features(wave[None], "cpu")[0]
    found = log_mel(torch.from_numpy(wave))
    assert found.shape == (128, 100)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-4)
