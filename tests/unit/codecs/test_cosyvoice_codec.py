"""CosyVoice's codec with stand-ins for the tokenizer and the official repository."""

import re
import sys
import types
import weakref
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from official_cosyvoice import Model, official
from transformers import WhisperFeatureExtractor

from speculative_tts.codecs import cosyvoice
from speculative_tts.codecs.cosyvoice import CosyVoiceCodec, log_mel
from speculative_tts.codecs.registry import load_codec

RATE = 24_000


@pytest.fixture
def codec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CosyVoiceCodec:
    """Its tokenizer gives a code for each four mel frames."""
    (tmp_path / "speech_tokenizer_v2.onnx").touch()
    made = load_codec("cosyvoice", tmp_path)
    assert isinstance(made, CosyVoiceCodec)
    monkeypatch.setattr(made, "_tokens", lambda mel: list(range(mel.shape[1] // 4)))
    return made


def test_a_prompt_gives_codes_and_its_voice_speaks(
    codec: CosyVoiceCodec, monkeypatch: pytest.MonkeyPatch
) -> None:
    official(monkeypatch)
    prompt = codec.encode_prompt(np.zeros(RATE))
    assert len(prompt) == 25
    wave = codec.decode_as(np.arange(10), prompt)
    assert wave.shape == (9600,)
    (call,) = codec.official.model.calls
    assert call["token"].shape == (1, 10)
    assert call["prompt_token"].shape == (1, 25)
    assert call["prompt_feat"].shape == (1, 50, 80)  # two frames a code
    assert call["finalize"] is True
    assert codec.decode(prompt).shape == (24_000,)
    with pytest.raises(ValueError, match="are not of a prompt that this codec encoded"):
        codec.decode_as(np.arange(10), np.arange(3))


def test_pieces_are_cut_as_the_official_stream_cuts_them(
    codec: CosyVoiceCodec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of 25 of prompt and speech, three codes ahead, the seam kept from piece to piece."""
    official(monkeypatch)
    prompt, codes = codec.encode_prompt(np.zeros(RATE * 7 // 5)), np.arange(100)
    assert len(prompt) == 35  # 15 short of two blocks
    speaking = codec.speaking(prompt)
    assert list(islice(speaking.strides(), 3)) == [43, 25, 25]
    for count in (42, 43, 68, 80):
        list(speaking.ready(codes[:count]))
    list(speaking.ready(codes, ended=True))
    model = codec.official.model
    calls = [(c["token"].shape[1], c["token_offset"], c["finalize"]) for c in model.calls]
    assert calls == [(43, 0, False), (68, 40, False), (100, 65, True)]
    assert all(call["stream"] is True for call in model.calls)
    assert len({call["uuid"] for call in model.calls}) == 1
    assert not model.hift_cache_dict


@pytest.mark.parametrize(("samples", "codes"), [(24_960, 26), (25_440, 26), (25_919, 26)])
def test_lm_and_flow_get_the_codes_that_have_two_mel_frames(
    codec: CosyVoiceCodec, monkeypatch: pytest.MonkeyPatch, samples: int, codes: int
) -> None:
    """The tokenizer rounds up, the official frontend cuts what it made too many."""
    monkeypatch.setattr(codec, "_tokens", lambda mel: list(range(-(-mel.shape[1] // 4))))
    wave = np.zeros(samples)
    assert len(codec.encode(wave)) == -(-samples // 960)
    assert len(codec.encode_prompt(wave)) == codes == samples // 480 // 2


def test_without_the_official_repository_it_says_how_to_get_it(
    codec: CosyVoiceCodec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cosyvoice", None)
    with pytest.raises(ValueError, match=r"git clone --recursive https://github\.com/FunAudioLLM"):
        codec.decode(codec.encode_prompt(np.zeros(RATE)))


def test_what_the_official_classes_say_of_a_folder_is_one_line(
    codec: CosyVoiceCodec, monkeypatch: pytest.MonkeyPatch
) -> None:
    official(monkeypatch)

    def refuses(model_dir: str) -> None:
        raise OSError("no file named model.safetensors\nfound in directory")

    monkeypatch.setattr(sys.modules["cosyvoice.cli.cosyvoice"], "AutoModel", refuses)
    with pytest.raises(ValueError, match=r"no file named model\.safetensors\).*flow\.pt") as error:
        codec.decode(codec.encode_prompt(np.zeros(RATE)))
    assert "\n" not in str(error.value)


def test_the_flow_is_timed_apart_from_the_vocoder(
    codec: CosyVoiceCodec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are one call of the official model; SSD's figure 1(b) has their times."""
    official(monkeypatch)
    clock = iter(range(100))
    monkeypatch.setattr(cosyvoice, "_now", lambda: 3.0 * next(clock))
    flow = types.SimpleNamespace(pre_lookahead_len=3, inference=lambda mel: mel)
    monkeypatch.setattr(Model, "flow", flow)
    assert codec.official.model.flow.inference(5) == 5
    assert codec.official.model.flow.inference(5) == 5
    assert codec.flow_seconds == 6.0


def test_a_model_whose_flow_is_not_found_says_so(
    codec: CosyVoiceCodec, monkeypatch: pytest.MonkeyPatch
) -> None:
    official(monkeypatch)
    codec.decode(codec.encode_prompt(np.zeros(RATE)))
    assert codec.flow_seconds is None


def test_waves_of_a_corpus_are_not_kept(codec: CosyVoiceCodec) -> None:
    """Hundreds of hours are encoded by one codec."""
    waves = [np.zeros(RATE * seconds, dtype=np.float32) for seconds in (1, 2, 3)]
    alive = [weakref.ref(wave) for wave in waves]
    for wave in waves:
        codec.encode(wave)
    del wave, waves
    assert [one() for one in alive] == [None] * 3


@pytest.mark.parametrize("gpu", [False, True])
def test_tokens_are_made_on_a_gpu_where_there_is_one(
    codec: CosyVoiceCodec, monkeypatch: pytest.MonkeyPatch, *, gpu: bool
) -> None:
    asked = []
    fake = types.ModuleType("onnxruntime")
    cuda = ["CUDAExecutionProvider"] if gpu else []
    fake.get_available_providers = lambda: ["X", "CPUExecutionProvider", *cuda]  # type: ignore[attr-defined]
    fake.SessionOptions = types.SimpleNamespace  # type: ignore[attr-defined]
    fake.InferenceSession = lambda *_, providers: asked.append(providers)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "onnxruntime", fake)
    assert codec.session is None
    assert asked == [[*cuda, "CPUExecutionProvider"]]


class S3:
    """s3tokenizer's model, at work on `device` only."""

    device = "cpu"

    def to(self, device: str) -> "S3":
        self.device = device
        return self

    def eval(self) -> "S3":
        return self

    def quantize(
        self, mel: torch.Tensor, lengths: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        assert mel.device.type == lengths.device.type == self.device
        return torch.zeros(1, 9, dtype=torch.int64, device=self.device), lengths // 4


def test_s3tokenizer_gets_frames_where_its_weights_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = types.ModuleType("s3tokenizer")
    fake.load_model = lambda _: S3()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "s3tokenizer", fake)
    monkeypatch.setattr(cosyvoice, "_device", lambda: "meta")
    (tmp_path / "speech_tokenizer_v2.onnx").touch()
    codec = CosyVoiceCodec.load(tmp_path)
    assert codec.s3.device == "meta"
    monkeypatch.setattr(cosyvoice, "_device", lambda: "cpu")
    assert len(CosyVoiceCodec.load(tmp_path).encode(np.zeros(8 * 960))) == 8


def test_what_is_missing_is_named(codec: CosyVoiceCodec, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"looked for speech_tokenizer_v2\.onnx"):
        CosyVoiceCodec.load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"31\.0 s of speech is above the tokenizer's 30 s"):
        codec.encode(np.zeros(31 * RATE))


V2, V3 = "speech_tokenizer_v2.onnx", "speech_tokenizer_v3.onnx"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ([V2], V2),
        ([V3], V3),
        (["cosyvoice3.yaml", V3], V3),
        (["cosyvoice3.yaml", V2, V3], V3),
        (["cosyvoice2.yaml", V2, V3], V2),
        (["cosyvoice3.yaml", V2], f"mixes CosyVoice 2 and 3: it has cosyvoice3.yaml, {V2}; "),
        (["cosyvoice2.yaml", V3], f"mixes CosyVoice 2 and 3: it has cosyvoice2.yaml, {V3}; "),
        ([V2, V3], f"mixes CosyVoice 2 and 3: it has {V2}, {V3}; download one model"),
        (["cosyvoice2.yaml", "cosyvoice3.yaml", V2], "it has cosyvoice2.yaml, cosyvoice3.yaml"),
        (["cosyvoice3.yaml"], f"looked for {V3}; download"),
    ],
)
def test_the_tokenizer_is_of_the_models_version(
    tmp_path: Path, files: list[str], found: str
) -> None:
    """Both have 6,561 codes, which mean other sounds."""
    for name in files:
        (tmp_path / name).touch()
    if found in (V2, V3):
        assert cosyvoice.find_tokenizer(tmp_path) == tmp_path / found
        return
    with pytest.raises(ValueError, match=re.escape(found)):
        CosyVoiceCodec.load(tmp_path)


def test_frames_are_whispers() -> None:
    """Expect what transformers' extractor gives without its padding to 30 s."""
    wave = np.random.default_rng(0).standard_normal(16_000).astype(np.float32) * 0.1
    extractor = WhisperFeatureExtractor(feature_size=128)
    expected = extractor(wave, sampling_rate=16_000, padding="longest")["input_features"][0]
    found = log_mel(torch.from_numpy(wave))
    assert found.shape == (128, 100)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-4)
