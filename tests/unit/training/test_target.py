"""Training on a toy corpus, and targets that are grown from others: the same function at first."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from killed_trainings import killed_at
from safetensors.torch import load_file
from small_target import LAYOUT as SMALL
from small_target import WORDS, save_target
from torch import Tensor
from transformers import PreTrainedModel

from speculative_tts.codecs.tiny import TOKEN_FEATURES, TinyCodec
from speculative_tts.models.families.merged_vocab import MergedVocabLM
from speculative_tts.models.layout import SpeechLayout
from speculative_tts.records import read_jsonl
from speculative_tts.schema.common import Device
from speculative_tts.training.checkpoint import build_model
from speculative_tts.training.devices import accelerator_for
from speculative_tts_makers.training.grow import deepen, grow_target, refine
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


COARSE = TinyCodec(
    np.random.default_rng(0).normal(size=(SMALL.n_codes, TOKEN_FEATURES)).astype(np.float32),
    np.ones(27, np.float32),
)


@pytest.fixture
def target(tmp_path: Path) -> tuple[Path, PreTrainedModel]:
    folder = tmp_path / "target"
    return folder, save_target(folder)


def rebuilt(folder: Path, tensors: dict[str, Tensor], **changed: object) -> PreTrainedModel:
    config = json.loads((folder / "config.json").read_text())
    config.pop("layer_types", None)
    return build_model(config | changed, tensors, torch.float32)


def logits(model: PreTrainedModel, ids: Tensor) -> Tensor:
    with torch.no_grad():
        found: Tensor = model(input_ids=ids).logits
    return found


@pytest.mark.parametrize("layers", [4, 5, 8, 11])
def test_a_deeper_target_is_the_same_function(
    target: tuple[Path, PreTrainedModel], layers: int
) -> None:
    folder, model = target
    ids = torch.arange(40)[None] % SMALL.vocab_size
    tensors = grow_target(folder, COARSE, COARSE, SMALL, layers)
    deeper = rebuilt(folder, tensors, num_hidden_layers=layers)
    assert torch.equal(logits(deeper, ids), logits(model, ids))


def test_inserted_layers_can_learn(target: tuple[Path, PreTrainedModel]) -> None:
    """Only what a layer adds is zero; its gradient is not."""
    folder, _ = target
    tensors = grow_target(folder, COARSE, COARSE, SMALL, 8)
    deeper = rebuilt(folder, tensors, num_hidden_layers=8)
    deeper(input_ids=torch.arange(9)[None]).logits.square().sum().backward()
    inserted = [n for n, p in deeper.named_parameters() if p.ndim == 2 and not p.any()]
    assert len(inserted) == 2 * 4
    assert all(dict(deeper.named_parameters())[name].grad.any() for name in inserted)


def test_the_same_codes_in_another_order_are_the_same_target(
    target: tuple[Path, PreTrainedModel],
) -> None:
    """And with other feature weights, which scale a codebook and mean the same speech."""
    folder, model = target
    order = np.random.default_rng(1).permutation(SMALL.n_codes)
    scale = np.linspace(0.5, 2, 27).astype(np.float32)
    other = TinyCodec(COARSE.codebook[order] * np.tile(scale, 4), scale)
    moved = rebuilt(folder, grow_target(folder, COARSE, other, SMALL, 4))
    places = torch.cat([torch.from_numpy(order), torch.arange(len(order), SMALL.vocab_size)])
    ids = torch.arange(SMALL.vocab_size)[None]
    expected = logits(model, places[ids])[..., places]
    torch.testing.assert_close(logits(moved, ids), expected, atol=1e-4, rtol=1e-4)


def test_finer_codes_follow_their_parent_and_the_geometry() -> None:
    """Rows that are a linear map of the codebook are that map of a finer one, but for the ridge."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.randn(200, 6, generator=generator).double()
    slope = torch.randn(6, 3, generator=generator).double()
    fine = coarse.repeat(4, 1) + 0.1 * torch.randn(800, 6, generator=generator)
    refined = refine(coarse @ slope + 5, coarse, fine)
    left = (refined - (fine @ slope + 5)).norm() / (fine @ slope).norm()
    parents_alone = (coarse.repeat(4, 1) - fine) @ slope
    assert left < 0.1 * parents_alone.norm() / (fine @ slope).norm()


@pytest.mark.parametrize(
    ("layout", "layers", "message"),
    [
        (SpeechLayout.merged(30, ("zulu",)), 4, "speaks 24 codes and 3 words, the corpus has 24"),
        (SpeechLayout.merged(30, WORDS), 3, "layers 3 are fewer than the 4 of init; give more"),
    ],
)
def test_what_cannot_grow_is_told(
    target: tuple[Path, PreTrainedModel], layout: SpeechLayout, layers: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        grow_target(target[0], COARSE, COARSE, layout, layers)


def test_what_is_not_a_layer_is_kept() -> None:
    tensors = {
        "model.norm.weight": torch.ones(2),
        "model.layers.0.mlp.up_proj.weight": torch.eye(2),
    }
    assert set(deepen(tensors, 1, 2)) == {*tensors, "model.layers.1.mlp.up_proj.weight"}
