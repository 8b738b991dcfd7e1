"""seed-tts-eval's Chinese words: how they are counted, and FunASR on a tiny random checkpoint."""

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from speculative_tts.commands import eval as command
from speculative_tts.evaluation.judges.paraformer import Paraformer
from speculative_tts.evaluation.registry import build_local
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.schema.evaluate import Recogniser

REASON = "funasr is in the extra chinese"
TOKENS = ["<blank>", "<s>", "</s>", *"今天氣好你是", "<unk>"]
LAYER = {"attention_heads": 2, "linear_units": 32, "num_blocks": 1, "kernel_size": 11}
CONFIG: dict[str, Any] = {
    "model": "Paraformer",
    "model_conf": {"ctc_weight": 0.0, "predictor_bias": 1},
    "encoder": "SANMEncoder",
    "encoder_conf": LAYER
    | {"output_size": 16, "input_layer": "pe", "pos_enc_class": "SinusoidalPositionEncoder"}
    | {"selfattention_layer_type": "sanm", "sanm_shfit": 0},
    "decoder": "ParaformerSANMDecoder",
    "decoder_conf": LAYER | {"att_layer_num": 1, "sanm_shfit": 0},
    "predictor": "CifPredictorV2",
    "predictor_conf": {"idim": 16, "l_order": 1, "r_order": 1, "threshold": 1.0}
    | {"tail_threshold": 0.45},
    "frontend": "WavFrontend",
    "frontend_conf": {"fs": 16_000, "window": "hamming", "n_mels": 80, "lfr_m": 7, "lfr_n": 6},
    "tokenizer": "CharTokenizer",
    "tokenizer_conf": {"unk_symbol": "<unk>", "split_with_space": True},
}


def checkpoint(folder: Path) -> Path:
    """Random weights in the layout of paraformer-zh."""
    importlib.import_module("funasr.models.paraformer.model")
    ones = " ".join(["1.0"] * 560)
    folder.mkdir()
    (folder / "tokens.json").write_text(json.dumps(TOKENS))
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    (folder / "am.mvn").write_text(
        f"<Nnet>\n<AddShift> 560 560\n<LearnRateCoef> 0 [ {ones} ]\n"
        f"<Rescale> 560 560\n<LearnRateCoef> 0 [ {ones} ]\n</Nnet>\n"
    )
    kind = importlib.import_module("funasr.register").tables.model_classes["Paraformer"]
    parts = {
        name: value for name, value in CONFIG.items() if name.startswith(("enc", "dec", "pre"))
    }
    torch.manual_seed(0)
    model = kind(**parts, **CONFIG["model_conf"], input_size=560, vocab_size=len(TOKENS))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.predictor.cif_output.bias.data.fill_(2.0)  # so that something is heard,
    model.decoder.output_layer.bias.data[[0, 1, 2, -1]] = -1e3  # and written
    torch.save(model.state_dict(), folder / "model.pt")
    return folder


def test_characters_are_counted() -> None:
    """Of simplified text without punctuation; Latin letters keep their case."""
    pytest.importorskip("zhconv_rs", reason=REASON)
    judge = Paraformer()
    assert judge.normaliser()("今天天氣，真好！ OK。") == "今 天 天 气 真 好 O K"  # noqa: RUF001
    (row,) = judge.score([ScoreRow("a", "今天天气好。", "a.wav")], {"a.wav": "今天天氣很好"})
    assert (row["words"], row["substitutions"], row["insertions"]) == (5, 0, 1)


# The package imports what Python 3.12 takes away, and starts a pool of its own.
@pytest.mark.filterwarnings("ignore")
def test_the_judge_hears_by_funasr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for module in Paraformer.packages:
        pytest.importorskip(module, reason=REASON)
    folder = checkpoint(tmp_path / "paraformer-zh")
    settings = ["judges=seedtts_zh", f"judges.models={tmp_path}"]
    config = command.main.compose(settings)
    assert config.judges.recogniser is Recogniser.paraformer
    judge = build_local(Paraformer, config.judges)
    assert judge.folder == folder
    assert judge.missing() is None
    assert judge.version.startswith("funasr 1.")
    capsys.readouterr()
    transcribe = judge.load()
    noise = np.random.default_rng(0).normal(0, 0.1, 32_000).astype(np.float32)
    assert set(transcribe(noise)) <= set("".join(TOKENS))
    assert len(transcribe(noise)) > 1
    assert transcribe(noise) == transcribe(noise)
    assert isinstance(transcribe(np.zeros(1600, np.float32)), str)
    assert capsys.readouterr().out == ""


def test_a_missing_judge_says_how_to_get_it() -> None:
    message = Paraformer(models="models/judges").missing()
    assert message is not None
    assert "hf download funasr/paraformer-zh --local-dir models/judges/paraformer-zh" in message
