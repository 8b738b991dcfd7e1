"""Which judges a preset has, where their models are found, and what is said without them."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from speculative_tts.commands import eval as command
from speculative_tts.evaluation.judge import signature
from speculative_tts.evaluation.judges.conformer import Conformer
from speculative_tts.evaluation.judges.eres2net import Eres2Net
from speculative_tts.evaluation.judges.hubert import Hubert
from speculative_tts.evaluation.judges.openai_whisper import OpenaiWhisper
from speculative_tts.evaluation.judges.paraformer import Paraformer
from speculative_tts.evaluation.judges.utmos import Utmos
from speculative_tts.evaluation.judges.wavlm import WavlmLarge
from speculative_tts.evaluation.judges.whisper import Whisper
from speculative_tts.evaluation.judges.xvector import XVector
from speculative_tts.evaluation.registry import JUDGES, build_local
from speculative_tts.evaluation.scoring import Source
from speculative_tts.schema.evaluate import Encoder, JudgesConfig, Recogniser

MODELS = (
    Whisper,
    OpenaiWhisper,
    Paraformer,
    Hubert,
    Conformer,
    Eres2Net,
    WavlmLarge,
    XVector,
    Utmos,
)


@pytest.mark.parametrize("kind", MODELS)
def test_a_missing_model_is_one_line_with_its_command(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speculative_tts.evaluation.local_model.installed", lambda *_: True)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    line = build_local(kind, JudgesConfig(models=str(tmp_path / "models"))).missing()
    assert f" lacks its model; {kind.published.command.split()[0]} " in line
    assert line.count("--exclude") == line.count("--exclude '")  # hf takes one pattern at a time
    assert "' '" not in line
    assert f"{tmp_path}/models/{kind.published.name}" in line
    assert "\n" not in line
    monkeypatch.setattr("speculative_tts.evaluation.local_model.installed", lambda *_: False)
    both = build_local(kind, JudgesConfig()).missing()
    assert "pip install" in both
    assert both.endswith(f" && {kind.published.remedy(None)}")  # one line for all that is absent


@pytest.mark.parametrize("kind", MODELS)
def test_models_are_found_where_they_are_put(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = tmp_path / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(hub))
    names = [name.split("|")[0] for name in kind.published.files]

    def put(folder: Path) -> Path:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(str(folder).encode())
        return folder

    below = put(tmp_path / "models" / kind.published.name)
    assert build_local(kind, JudgesConfig(models=str(tmp_path / "models"))).folder == below
    own = put(tmp_path / "own")
    given = build_local(kind, JudgesConfig(**{kind.published.key: str(own)}))
    assert given.folder == own
    assert signature(given) != signature(dataclasses.replace(given, folder=below))
    if kind.published.hub:
        name = f"models--{kind.published.hub.replace('/', '--')}"
        cached = put(hub / name / "snapshots" / "1")
        assert build_local(kind, JudgesConfig()).folder == cached
    with pytest.raises(ValueError, match=rf"judges.{kind.published.key}=.* has no ") as caught:
        build_local(kind, JudgesConfig(**{kind.published.key: str(tmp_path / "empty")}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("preset", "ids", "metrics"),
    [
        ("offline", ["pocketsphinx-general", "ge2e", "dnsmos-p808"], None),
        ("ssd", ["whisper-large-v3", "speech_eres2net_sv_en_voxceleb_16k", "dnsmos-p808"], None),
        ("pcg", ["hubert-large-ls960-ft", "wavlm_large_finetune", "dnsmos-p808"], None),
        (
            "mtp",
            ["stt_en_conformer_transducer_large", "wavlm-base-plus-sv", "utmos22_strong"],
            ["wer", "similarity", "utmos"],
        ),
    ],
)
def test_presets(preset: str, ids: list[str], metrics: list[str] | None) -> None:
    config = command.main.compose([f"judges={preset}"])
    assert config.judges.name == preset
    source = Source(Path(), [], {"label": "x"})
    assert [JUDGES[metric](source, config).id for metric in config.metrics] == ids
    assert metrics is None or config.metrics == metrics


def test_own_values_win_over_a_preset() -> None:
    config = command.main.compose(["judges=pcg", "judges.encoder=ge2e", "metrics=[wer]"])
    assert (config.judges.recogniser, config.judges.encoder) == (Recogniser.hubert, Encoder.ge2e)
    assert config.metrics == ["wer"]
