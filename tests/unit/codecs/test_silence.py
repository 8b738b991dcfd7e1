"""An utterance that ends at once has a file, with every codec."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_models import write_codec
from transformers import NeuCodecConfig, NeuCodecModel, Xcodec2Config, Xcodec2Model

from speculative_tts.assets import resolve
from speculative_tts.codecs.registry import CODECS, decode_voice, load_codec
from tests.unit.codecs.test_transformers_codecs import SIZES

GOLDEN = Path(__file__).parents[2] / "golden"
SPEECHTOKENIZER = GOLDEN / "speechtokenizer"
STORED = {"snac": "rows/snac", "mimi": "csm/model"}


def write(name: str, folder: Path) -> Path:
    """A little codec of each kind on disk."""
    folder.mkdir()
    torch.manual_seed(0)
    if name == "tiny":
        write_codec(folder, np.random.default_rng(0))
    elif name == "tiny_residual":
        return resolve("tiny:codec_residual")
    elif name == "codes":
        return resolve("tiny:codes_spark")
    elif name in STORED:
        return GOLDEN / STORED[name]
    elif name == "cosyvoice":
        (folder / "speech_tokenizer_v2.onnx").touch()  # no more is read: there is nothing to speak
    elif name == "speechtokenizer":
        shutil.copy(SPEECHTOKENIZER / "config_snake.json", folder / "config.json")
        shutil.copy(SPEECHTOKENIZER / "SpeechTokenizer_snake.pt", folder / "SpeechTokenizer.pt")
    elif name == "xcodec2":
        Xcodec2Model(Xcodec2Config(**SIZES)).save_pretrained(folder)
    else:
        NeuCodecModel(NeuCodecConfig(**SIZES)).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", sorted(CODECS))
def test_no_codes_are_a_tenth_of_a_second_of_silence(name: str, tmp_path: Path) -> None:
    codec = load_codec(name, write(name, tmp_path / name))
    layers = (codec.n_layers,) if codec.n_layers > 1 else ()
    none, prompt = (np.zeros((*layers, length), dtype=np.int64) for length in (0, 9))
    wave = decode_voice(codec, none, prompt)
    assert wave.dtype == np.float32
    assert wave.tolist() == [0.0] * (codec.sample_rate // 10)
