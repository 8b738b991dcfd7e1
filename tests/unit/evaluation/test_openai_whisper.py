"""OpenAI's Whisper as a judge, on one tiny random checkpoint."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from speculative_tts.evaluation.judges.openai_whisper import FILE, SHA256, OpenaiWhisper
from speculative_tts.evaluation.registry import RECOGNISERS, build_local
from speculative_tts.schema.evaluate import JudgesConfig, Recogniser

whisper = pytest.importorskip("whisper", reason="openai-whisper is in the extra papers")
NOISE = np.random.default_rng(0).normal(0, 0.1, 24_000).astype(np.float32)
SIZES = {"n_audio_ctx": 1500, "n_audio_state": 16, "n_audio_head": 2, "n_audio_layer": 2}
SIZES |= {"n_mels": 80, "n_vocab": 51_865, "n_text_ctx": 32}
SIZES |= {"n_text_state": 16, "n_text_head": 2, "n_text_layer": 2}


@pytest.fixture(scope="module")
def official() -> Any:
    torch.manual_seed(0)
    model = whisper.model.Whisper(whisper.model.ModelDimensions(**SIZES)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


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
