"""Training on a toy corpus: a resumed run equals an undisturbed one, and loss falls."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from speculative_tts.models.layout import SpeechLayout
from speculative_tts.training.data.recordings import (
    BatchConfig,
    Recording,
    Recordings,
    Stage,
    draw_batch,
)
from speculative_tts.training.target import (
    ModelConfig,
    Recipe,
    Trainee,
    build_trainee,
    export_target,
    learning_rate_factor,
    load_state,
    save_state,
    train_step,
)

LAYOUT = SpeechLayout.merged(n_codes=12, words=("alpha", "bravo", "charlie"))
CONFIG = Recipe(
    model=ModelConfig(hidden_size=16, intermediate_size=24, layers=2, heads=2, kv_heads=1),
    batch=BatchConfig(tokens=120, stages=(Stage(1 << 30, 2),)),
    steps=40,
    warmup_steps=4,
    decay_steps=10,
)


def toy_recordings() -> Recordings:
    """Word w is always said as codes 4 w + 0, 1, 2, 3."""

    def say(words: list[int]) -> Recording:
        codes = np.concatenate([4 * word + np.arange(4) for word in words])
        return Recording(np.array(words), codes, 0, 4 * np.arange(1, len(words) + 1))

    pairs = [[i, j] for i in range(3) for j in range(3)]
    return Recordings(
        ({1: tuple(say([i]) for i in range(3)), 2: tuple(say(pair) for pair in pairs)},)
    )


def run(trainee: Trainee, until: int) -> list[float]:
    losses = []
    while trainee.step < until:
        batch = draw_batch(toy_recordings(), LAYOUT, CONFIG.batch, CONFIG.seed, trainee.step)
        losses.append(train_step(trainee.model.model, trainee, batch, CONFIG)["loss"])
    return losses


@pytest.mark.parametrize("muon", [True, False])
def test_resumed_run_equals_undisturbed_run(tmp_path: Path, muon: bool) -> None:
    config = replace(CONFIG, muon=muon)
    undisturbed = build_trainee(config, LAYOUT)
    run(undisturbed, 6)
    killed = build_trainee(config, LAYOUT)
    run(killed, 3)
    save_state(killed, tmp_path / "state.pt")
    resumed = build_trainee(config, LAYOUT)
    load_state(resumed, tmp_path / "state.pt")
    run(resumed, 6)
    expected = undisturbed.model.state_dict()
    for name, value in resumed.model.state_dict().items():
        assert torch.equal(value, expected[name]), name


def test_loss_falls() -> None:
    losses = run(build_trainee(CONFIG, LAYOUT), CONFIG.steps)
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])


def test_learning_rate_warms_up_holds_and_decays() -> None:
    factors = [learning_rate_factor(step, CONFIG) for step in range(40)]
    assert factors[:4] == [0.25, 0.5, 0.75, 1.0]
    assert set(factors[4:31]) == {1.0}
    assert factors[-1] == pytest.approx(0.1)


def test_export_has_three_files_in_half_precision(tmp_path: Path) -> None:
    trainee = build_trainee(CONFIG, LAYOUT)
    export_target(trainee.model, LAYOUT, tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["config.json", "model.safetensors", "speech.json"]
    tensors = load_file(tmp_path / "model.safetensors")
    assert tensors["model.embed_tokens.weight"].shape == (LAYOUT.vocab_size, 16)
    assert {t.dtype for t in tensors.values()} == {torch.float16}
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["Qwen2ForCausalLM"]
    assert config["tie_word_embeddings"] is False
