"""Targets of several layers of codes beside the codecs: SpeechTokenizer has the eight they make."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
from fake_models import FakeModels, write_codec, write_fake_models
from valle_folders import write_valle

from speculative_tts.commands.decode import main

GOLDEN = Path(__file__).parents[2] / "golden" / "speechtokenizer"
N_CODES, LAYERS = 64, 8  # the golden SpeechTokenizer's


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> FakeModels:
    root = tmp_path_factory.mktemp("models")
    models = write_fake_models(root, utterances=1)
    write_valle(root / "valle", n_codes=N_CODES, quantizers=LAYERS)
    write_codec(root / "flat", np.random.default_rng(0), n_codes=N_CODES)
    (root / "speechtokenizer").mkdir()
    for name, stored in (("config.json", "config_snake.json"), ("SpeechTokenizer.pt", None)):
        shutil.copy(
            GOLDEN / (stored or "SpeechTokenizer_snake.pt"), root / "speechtokenizer" / name
        )
    return models


def arguments(models: FakeModels, codec: str, folder: str, out: Path) -> list[str]:
    root = models.root
    parts = [f"target.path={root / 'valle'}", f"data.path={root / 'list.jsonl'}"]
    return [*parts, f"codec={codec}", f"codec.path={root / folder}", "method=target", f"out={out}"]


def test_a_valle_speaks_through_speechtokenizer(models: FakeModels, tmp_path: Path) -> None:
    assert main(arguments(models, "speechtokenizer", "speechtokenizer", tmp_path)) == 0
    (path,) = tmp_path.rglob("records.jsonl")
    record = json.loads(path.read_text())
    wave, rate = soundfile.read(path.parent / record["audio"])
    assert (rate, len(wave)) == (16_000, 320 * len(record["codes"]))
    assert len(record["codes"]) >= 8
    assert record["nar_seconds"] > 0


def test_a_codec_of_one_layer_is_refused(
    models: FakeModels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(models, "tiny", "flat", tmp_path)) == 2
    assert "has 1 layers of codes, the target makes 8" in capsys.readouterr().err
