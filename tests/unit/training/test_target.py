"""Training on a toy corpus: a resumed run equals an undisturbed one, and loss falls."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from killed_trainings import killed_at
from safetensors.torch import load_file

from speculative_tts.codecs.tiny import TOKEN_FEATURES, TinyCodec
from speculative_tts.models.families.merged_vocab import MergedVocabLM
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.records import read_jsonl
from speculative_tts.schema.common import Device
from speculative_tts.training.devices import accelerator_for
from speculative_tts_makers.training.grow import grow_target
from speculative_tts_makers.training.recordings import (
    BatchConfig,
    Recording,
    RecordingsBySpeaker,
    Stage,
)
from speculative_tts_makers.training.target import (
    Material,
    ModelConfig,
    TargetRecipe,
    TargetTraining,
    initial_weights,
)

CPU = torch.device("cpu")
LAYOUT = SpeechLayout.merged(n_codes=12, words=("alpha", "bravo", "charlie"))
CONFIG = TargetRecipe(
    model=ModelConfig(hidden_size=16, intermediate_size=24, heads=2, kv_heads=1),
    layers=2,
    batch=BatchConfig(tokens=120, stages=(Stage(1 << 30, 2),)),
    steps=40,
    warmup_steps=4,
    decay_steps=10,
    save_every=3,
    log_every=1,
)


def toy_recordings() -> RecordingsBySpeaker:
    """Word w is always said as codes 4 w + 0, 1, 2, 3."""

    def say(words: list[int]) -> Recording:
        codes = np.concatenate([4 * word + np.arange(4) for word in words])
        return Recording(np.array(words), codes, 0, 4 * np.arange(1, len(words) + 1))

    pairs = [[i, j] for i in range(3) for j in range(3)]
    return RecordingsBySpeaker(
        ({1: tuple(say([i]) for i in range(3)), 2: tuple(say(pair) for pair in pairs)},)
    )


def toy() -> Material:
    return Material(LAYOUT, toy_recordings())


def fresh(out: Path) -> TargetTraining:
    return TargetTraining(out, CONFIG, toy(), accelerator_for(Device.cpu))


def test_resumed_run_equals_undisturbed_run(tmp_path: Path) -> None:
    whole = fresh(tmp_path / "whole")
    whole.run()
    with pytest.raises(KeyboardInterrupt):
        fresh(tmp_path / "cut").run(killed_at(5))
    resumed = fresh(tmp_path / "cut")
    resumed.run()
    for name, value in resumed.parameters.items():
        assert torch.equal(value, whole.parameters[name]), name
    logs = [(tmp_path / n / "training/metrics.jsonl").read_text() for n in ("whole", "cut")]
    assert logs[0] == logs[1]


def test_loss_falls_and_the_export_is_in_half_precision(tmp_path: Path) -> None:
    fresh(tmp_path).run()
    rows = list(read_jsonl(tmp_path / "training/metrics.jsonl"))
    losses = [row["loss"] for row in rows]
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])
    assert set(rows[0]) >= {"next_word_accuracy", "gradient_norm", "learning_rate"}
    folder = tmp_path / "target"
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["config.json", "model.safetensors", "speech.json"]
    tensors = load_file(folder / "model.safetensors")
    assert tensors["model.embed_tokens.weight"].shape == (LAYOUT.vocab_size, 16)
    assert {t.dtype for t in tensors.values()} == {torch.float16}
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["Qwen2ForCausalLM"]
    assert config["tie_word_embeddings"] is False


def test_a_finished_training_goes_on_with_other_settings(tmp_path: Path) -> None:
    """`make tiny-models` pulls at the embeddings in the last steps alone."""
    fresh(tmp_path).run()
    longer = dataclasses.replace(CONFIG, steps=44, matrix_lr=0.001)
    training = TargetTraining(tmp_path, longer, toy(), accelerator_for(Device.cpu))
    training.run()
    rows = list(read_jsonl(tmp_path / "training/metrics.jsonl"))
    assert [row["step"] for row in rows] == list(range(1, 45))


@pytest.mark.parametrize("own", [True, False])
def test_a_target_of_the_codec_itself_begins_as_it_is(tmp_path: Path, own: bool) -> None:
    """Any other speaks the codes of the corpus's codec/, which is not there."""
    fresh(tmp_path).run()
    n_codes = LAYOUT.n_codes if own else 2 * LAYOUT.n_codes
    codec = TinyCodec(np.eye(n_codes, TOKEN_FEATURES, dtype=np.float32), np.ones(27, np.float32))
    recipe = dataclasses.replace(CONFIG, prepared=str(tmp_path / "corpus"))
    if own:
        begin = initial_weights(recipe, tmp_path / "target", codec, LAYOUT)
        stored = load_file(tmp_path / "target/model.safetensors")
        assert all(torch.allclose(begin[name], t.float(), atol=1e-6) for name, t in stored.items())
    else:
        with pytest.raises((OSError, ValueError), match="corpus/codec"):
            initial_weights(recipe, tmp_path / "target", codec, LAYOUT)


def test_a_grown_target_goes_on_where_its_source_ended(tmp_path: Path) -> None:
    fresh(tmp_path / "source").run()
    (*_, last) = read_jsonl(tmp_path / "source/training/metrics.jsonl")
    book = np.random.default_rng(0).normal(size=(LAYOUT.n_codes, TOKEN_FEATURES))
    codec = TinyCodec(book.astype(np.float32), np.ones(27, np.float32))
    begin = grow_target(tmp_path / "source/target", codec, codec, LAYOUT, layers=5)
    deeper = dataclasses.replace(CONFIG, layers=5, steps=1)
    accelerator = accelerator_for(Device.cpu)
    training = TargetTraining(tmp_path / "grown", deeper, toy(), accelerator, begin)
    training.run()
    (first,) = read_jsonl(tmp_path / "grown/training/metrics.jsonl")
    assert first["loss"] < 1.3 * last["loss"]
    exported = MergedVocabLM.load(tmp_path / "grown/target", dtype=torch.float32, device=CPU)
    assert exported.layout == LAYOUT
