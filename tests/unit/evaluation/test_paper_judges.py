"""The papers' judges on tiny random checkpoints of their own classes: plumbing, not quality."""

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tiny_judges
import torch
from safetensors.torch import load_file, save_file
from scored_runs import record
from transformers import Wav2Vec2Config, Wav2Vec2Model, WavLMConfig, WavLMModel

from speculative_tts.commands import eval as command
from speculative_tts.evaluation.judge import BatchJudge, single
from speculative_tts.evaluation.judges.conformer import transcribe
from speculative_tts.evaluation.judges.ecapa import Ecapa
from speculative_tts.evaluation.judges.eres2net import Eres2Net
from speculative_tts.evaluation.judges.hubert import Hubert
from speculative_tts.evaluation.judges.utmos import Utmos, predictor
from speculative_tts.evaluation.judges.wavlm import TRUNK, encoder
from speculative_tts.evaluation.judges.whisper import Whisper
from speculative_tts.evaluation.judges.xvector import XVector
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.summary import read_scores
from speculative_tts.schema.evaluate import EvalConfig, JudgesConfig, Recogniser

NOISE = np.random.default_rng(0).normal(0, 0.1, 16_000).astype(np.float32)
WIDE = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
ECAPA = {"channels": 16, "pooled": 24, "embedding": 12, "bottleneck": 4}


def test_hubert_spells() -> None:
    assert Hubert().normaliser()("It's 5 o'clock, John!") == "it's 5 o'clock john"


def test_hubert_hears_and_a_second_run_does_not(
    make_run: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_run("a", [record("u0"), record("u1")])
    judges = JudgesConfig(
        name="pcg", recogniser=Recogniser.hubert, hubert=str(tiny_judges.hubert(tmp_path / "h"))
    )
    config = EvalConfig(judges=judges, runs=str(folder), metrics=["wer"], workers=1, draws=50)
    assert command.run(config) == 0
    rows = read_scores(folder)
    assert [row["words"] for row in rows] == [3, 3]
    assert rows[0]["hypothesis"] is not None
    assert rows[0]["grammar"] is None
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["preset"] == "pcg"
    judge = summary["judges"]["wer"]
    assert judge["id"] == "hubert-large-ls960-ft"
    assert judge["options"]["decoding"] == "greedy CTC"
    assert len(judge["options"]["weights_sha256"]) == 12
    monkeypatch.setattr(Hubert, "load", lambda self: pytest.fail("heard again"))
    assert command.run(config) == 0


def test_whisper_transcribes_short_and_long(tmp_path: Path) -> None:
    judge = Whisper(tiny_judges.whisper(tmp_path / "w"))
    transcribe = judge.load()
    assert isinstance(transcribe(NOISE), str)
    assert transcribe(NOISE) == transcribe(NOISE)
    assert isinstance(transcribe(np.tile(NOISE, 31)), str)


def test_whispers_normaliser_writes_numbers_and_spelling(tmp_path: Path) -> None:
    judge = Whisper(tiny_judges.whisper(tmp_path / "w"))
    assert judge.options["normaliser"] == "whisper English without its spelling table"
    (tmp_path / "w/normalizer.json").write_text('{"colour": "color"}')
    assert judge.options["normaliser"] == "whisper English"
    sample = ScoreRow("a", "Mister Smith's colour is twenty-five", "a.wav")
    (row,) = judge.score([sample], {"a.wav": "Mr. Smith's color is 25."})
    assert row["substitutions"] == row["insertions"] == row["deletions"] == 0
    assert row["words"] > 4


def test_a_tenth_of_a_second_of_silence_is_heard(tmp_path: Path) -> None:
    """It is what an utterance without codes leaves; x-vectors need 15 frames of 20 ms."""
    silence = np.zeros(1600, np.float32)
    long = {"tdnn_dim": (8, 8, 8), "tdnn_kernel": (5, 3, 3), "tdnn_dilation": (1, 2, 3)}
    state, config, _, _ = wavlm_checkpoint()
    for embed in (
        XVector(tiny_judges.xvector(tmp_path / "x", **long)).load(),
        single(encoder(state, config, **ECAPA)),
    ):
        assert np.isfinite(embed(silence)).all()
    for judge in (
        Hubert(tiny_judges.hubert(tmp_path / "h")),
        Whisper(tiny_judges.whisper(tmp_path / "w")),
    ):
        assert isinstance(judge.load()(silence), str)


def test_xvector_is_a_voice(tmp_path: Path) -> None:
    embed = XVector(tiny_judges.xvector(tmp_path / "x")).load()
    voice = embed(NOISE)
    assert len(voice) == 12
    assert voice == embed(NOISE)
    assert voice != embed(NOISE[::-1].copy())


def fairseq_names(state: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """A transformers state in fairseq's names: the inverse of `fairseq.rename_tensors`."""
    norm = "encoder.pos_conv_embed.conv.parametrizations.weight.original"
    pairs = {
        "feature_projection.layer_norm": "layer_norm",
        "feature_projection.projection": "post_extract_proj",
        "masked_spec_embed": "mask_emb",
        f"{norm}0": "encoder.pos_conv.0.weight_g",
        f"{norm}1": "encoder.pos_conv.0.weight_v",
        "encoder.pos_conv_embed.conv": "encoder.pos_conv.0",
        ".attention.gru_rel_pos_linear": ".self_attn.grep_linear",
        ".attention.gru_rel_pos_const": ".self_attn.grep_a",
        ".attention.rel_attn_embed": ".self_attn.relative_attention_bias",
        ".attention.": ".self_attn.",
        ".feed_forward.intermediate_dense": ".fc1",
        ".feed_forward.output_dense": ".fc2",
    }
    layer = "2.1" if "feature_extractor.conv_layers.1.layer_norm.weight" in state else "2"
    made = {}
    for name, tensor in state.items():
        new = name
        for ours, theirs in pairs.items():
            if ours in new:
                new = new.replace(ours, theirs)
                break
        if name.startswith("feature_extractor"):
            new = new.replace(".conv.", ".0.").replace(".layer_norm.", f".{layer}.")
        elif name.startswith("encoder.layers") and ".layer_norm." in name:
            new = new.replace(".layer_norm.", ".self_attn_layer_norm.")
        made[prefix + new] = tensor
    return made


def wavlm_checkpoint() -> tuple[dict[str, torch.Tensor], WavLMConfig, WavLMModel, Ecapa]:
    torch.manual_seed(0)
    large = {"feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": False}
    config = WavLMConfig(**large, **tiny_judges.TRUNK)
    trunk, head = WavLMModel(config).eval(), Ecapa(3, 16, **ECAPA).eval()
    state = fairseq_names(trunk.state_dict(), TRUNK) | head.state_dict()
    return state | {"loss_calculator.projection.weight": torch.zeros(2, 2)}, config, trunk, head


@torch.inference_mode()
def test_wavlm_checkpoint_in_fairseqs_names_is_the_same_model() -> None:
    state, config, trunk, head = wavlm_checkpoint()
    assert TRUNK + "encoder.layers.1.self_attn.grep_a" in state
    assert TRUNK + "feature_extractor.conv_layers.1.2.1.weight" in state
    wave = torch.from_numpy((NOISE - NOISE.mean()) / np.sqrt(NOISE.var() + 1e-5))
    hidden = trunk(wave[None], output_hidden_states=True).hidden_states
    expected = head(torch.stack(hidden))[0]
    assert encoder(state, config, **ECAPA)([NOISE])[0] == pytest.approx(expected.tolist(), abs=1e-5)


def test_wavlm_checkpoint_of_another_kind_is_one_line() -> None:
    state, config, _, _ = wavlm_checkpoint()
    del state["pooling.linear1.weight"]
    with pytest.raises(ValueError, match=r"has no tensor for pooling.linear1.weight; give UniSp"):
        encoder(state, config, **ECAPA)


def test_utmos_is_time_mean_of_frames_scaled() -> None:
    torch.manual_seed(0)
    config = Wav2Vec2Config(**tiny_judges.TRUNK)
    trunk = Wav2Vec2Model(config).eval()
    blstm = torch.nn.LSTM(16 + 6, 5, batch_first=True, bidirectional=True)
    project = torch.nn.Sequential(torch.nn.Linear(10, 7), torch.nn.ReLU(), torch.nn.Linear(7, 1))
    state = fairseq_names(trunk.state_dict(), "wav2vec2.")
    state |= {"domain_emb": torch.randn(1, 3), "judge_emb": torch.randn(1, 3)}
    state |= {f"blstm.{name}": tensor for name, tensor in blstm.state_dict().items()}
    state |= {f"projection.{name}": tensor for name, tensor in project.state_dict().items()}
    with torch.inference_mode():
        frames = trunk(torch.from_numpy(NOISE)[None]).last_hidden_state
        extra = torch.cat([state["domain_emb"], state["judge_emb"]], 1)
        joined = torch.cat([frames, extra.expand(1, frames.shape[1], -1)], 2)
        expected = float(project(blstm(joined)[0]).mean() * 2 + 3)
    assert predictor(state, config)(NOISE) == pytest.approx(expected, abs=1e-5)
    with pytest.raises(ValueError, match="has no tensor for"):
        predictor({"x": torch.zeros(1)}, config)


WAVES = [NOISE[:length] * (index + 1) for index, length in enumerate((16_000, 9_000, 12_345))]


@pytest.mark.parametrize("normalised", ["layer", "group"])
def test_hubert_hears_several_as_it_hears_each(tmp_path: Path, normalised: str) -> None:
    """Also with norms over time, to which what is padded would count: those are heard in turn."""
    judge = Hubert(tiny_judges.hubert(tmp_path / "h", feat_extract_norm=normalised))
    alone = judge.load()
    assert isinstance(judge, BatchJudge)
    assert judge.load_many()(WAVES) == [alone(wave) for wave in WAVES]
    assert len({*map(alone, WAVES)}) > 1


def test_whisper_hears_several_as_it_hears_each(tmp_path: Path) -> None:
    """One beyond its window is heard by itself, in its place."""
    judge = Whisper(tiny_judges.whisper(tmp_path / "w"))
    waves = [WAVES[0], np.tile(NOISE, 31), *WAVES[1:]]
    alone = judge.load()
    assert judge.load_many()(waves) == [alone(wave) for wave in waves]


def test_wavlm_compares_several_as_it_does_each() -> None:
    state, config, _, _ = wavlm_checkpoint()
    embed = encoder(state, config, **ECAPA)
    together, alone = embed(WAVES), [embed([wave])[0] for wave in WAVES]
    np.testing.assert_allclose(together, alone, atol=2e-5)
    assert np.abs(np.subtract(alone[0], alone[1])).max() > 1e-3


def test_nemo_answers_of_all_versions() -> None:
    def model(answer: Any) -> Any:
        return types.SimpleNamespace(transcribe=lambda waves, batch_size, verbose: answer)

    said = ["some words", "others"]
    assert transcribe(model(said), [NOISE] * 2) == said
    assert transcribe(model((said, ["all"])), [NOISE] * 2) == said
    assert (
        transcribe(model([types.SimpleNamespace(text=text) for text in said]), [NOISE] * 2) == said
    )


def test_eres2net_is_asked_for_embeddings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def embed(waves: Any, output_emb: bool) -> Any:
        assert output_emb
        assert len(waves[0]) >= 8000  # its statistics of a single frame are no numbers
        return {"embs": np.ones((len(waves), 192), np.float32)}

    def pipeline(task: str, model: str, device: str) -> Any:
        asked.append((task, model, device))
        return embed

    made = types.SimpleNamespace(pipeline=pipeline)
    monkeypatch.setitem(sys.modules, "modelscope", types.ModuleType("modelscope"))
    monkeypatch.setitem(sys.modules, "modelscope.pipelines", made)
    for wave in (NOISE, NOISE[:1600]):
        assert Eres2Net(tmp_path, "cuda").load()(wave) == [1.0] * 192
    assert asked == [("speaker-verification", str(tmp_path), "gpu")] * 2


def test_utmos_is_a_column(tmp_path: Path) -> None:
    judge = Utmos(tmp_path)
    assert judge.score([ScoreRow("a", "", "a.wav")], {"a.wav": 4.0}) == [{"utmos": 4.0}]
    soundfile.write(tmp_path / "a.wav", NOISE, 16_000)
    assert judge.files(ScoreRow("a", "", "a.wav")) == ["a.wav"]


@pytest.mark.parametrize(
    "judge",
    [(XVector, tiny_judges.xvector), (Hubert, tiny_judges.hubert), (Whisper, tiny_judges.whisper)],
)
@pytest.mark.parametrize("how", ["lost", "int8"])
def test_a_judge_is_not_drawn_at_random(tmp_path: Path, judge: Any, how: str) -> None:
    """transformers draws lost weights with a warning, and the figures were those of chance."""
    kind, write = judge
    file = write(tmp_path / "j") / "model.safetensors"
    state = load_file(file)
    name = next(name for name in state if name.endswith("layers.0.final_layer_norm.weight"))
    weight = state.pop(name)
    state |= {name: weight.to(torch.int8)} if how == "int8" else {}
    save_file(state, file, metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"final_layer_norm\.weight.*; copy the checkpoint again"):
        kind(tmp_path / "j").load()


def test_a_judge_names_what_it_leaves_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tiny_judges.xvector(tmp_path / "x") / "model.safetensors"
    save_file(load_file(file) | {"more.weight": torch.ones(2)}, file, metadata={"format": "pt"})
    XVector(tmp_path / "x").load()
    assert "tensors that the model does not have: more.weight" in caplog.text
