"""The tiny VALL-E's recipe on a toy corpus: layout, resume after a kill, learning, export."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from killed_trainings import killed_at
from safetensors.torch import load_file

from speculative_tts.codecs.tiny import ResidualTinyCodec
from speculative_tts.models.families.valle.checkpoint import load_valle
from speculative_tts.models.families.valle.config import ValleConfig
from speculative_tts.models.families.valle.lm import ValleLM
from speculative_tts.models.families.valle.modules import Attention
from speculative_tts.models.heads import load_heads
from speculative_tts.records import read_jsonl
from speculative_tts.schema.common import Device
from speculative_tts.schema.train import TrainTargetConfig
from speculative_tts.training.data.pairs import IGNORED
from speculative_tts.training.devices import accelerator_for
from speculative_tts_makers.training.layered import collate_valle
from speculative_tts_makers.training.recordings import (
    FLUENT,
    BatchConfig,
    Recording,
    RecordingsBySpeaker,
    Stage,
)
from speculative_tts_makers.training.valle import (
    StageConfig,
    StageTraining,
    TinyARTraining,
    TinyNARTraining,
    TrainValleConfig,
    ValleRun,
    valle_layout,
)
from speculative_tts_makers.training.valle_losses import guidance_loss, nearby
from speculative_tts_makers.training.valle_start import fresh_valle, sound_alike
from speculative_tts_makers.training.watch import TinySampling

BOOKS = np.random.default_rng(0).normal(size=(3, 12, 108)).astype(np.float32)
CODEC = ResidualTinyCodec(BOOKS, np.ones(27, np.float32))
LAYOUT = valle_layout(CODEC, TinySampling(min_tokens_per_word=2.0, max_tokens_per_word=5.0))
STAGE = StageConfig(steps=6, warmup_steps=2, decay_steps=2, save_every=3, log_every=1)
BATCHES = BatchConfig(tokens=150, stages=(Stage(1 << 30, 2),))
CONFIG = TrainValleConfig(
    dim=16,
    heads=2,
    layers=2,
    predictions=3,
    nar_spread=0.1,
    ar=STAGE,
    nar=STAGE,
    batch=BATCHES,
    nar_batch=dataclasses.replace(BATCHES, single_share=0.0),
)


def say(words: list[int]) -> Recording:
    """Word w is always said as codes 4 w + 0, 1, 2, 3; further layers follow from the first."""
    codes = np.concatenate([4 * word + np.arange(4) for word in words])
    residual = np.stack([(codes + 1) % 12, (codes * 5) % 12])
    return Recording(np.array(words), codes, 0, 4 * np.arange(1, len(words) + 1), residual)


def fresh(config: TrainValleConfig = CONFIG) -> ValleRun:
    pairs = tuple(say([i, j]) for i in range(3) for j in range(3))
    data = RecordingsBySpeaker(({1: tuple(say([i]) for i in range(3)), 2: pairs},))
    return ValleRun.build(config, LAYOUT, data, accelerator_for(Device.cpu), CODEC)


def test_batch_layout() -> None:
    batch = collate_valle([(say([1]), say([0, 2])), (say([2]),)], LAYOUT, heads=3)
    first, n = LAYOUT.text_offset, len(LAYOUT.words)
    assert batch.text.tolist() == [
        [LAYOUT.sos_id, first + 1, first, first + 2, LAYOUT.task_id],
        [LAYOUT.sos_id, first + 2] + [LAYOUT.task_id] * 3,
    ]
    assert batch.text_lengths.tolist() == [5, 3]
    assert batch.neighbours[1, :4].tolist() == [[n, 2], [n, n], [2, n], [IGNORED] * 2]
    assert batch.neighbours[0, :, 1].tolist() == [1, 0, 2, n, n]
    assert batch.codes.shape == (2, 12, 3)
    assert batch.code_lengths.tolist() == [12, 4]
    assert batch.codes[1, :4, 0].tolist() == [8, 9, 10, 11]
    assert batch.codes[1, :4, 1].tolist() == [9, 10, 11, 0]
    assert batch.targets[0, 0].tolist() == [5, 6, 7]  # the codes 1, 2 and 3 steps on
    assert batch.targets[1, 2].tolist() == [11, 12, 12]  # the end id beyond the last
    assert (batch.targets[1, 4:] == IGNORED).all()
    assert batch.current_word[1].tolist() == [2, 2, 2, n] + [IGNORED] * 8
    assert batch.next_word[0, :5].tolist() == [0, 0, 0, 2, 2]
    # places in [begin, w1, w0, w2, end]: the word spoken at the next code, and the one after it
    assert batch.places[0, [0, 2, 3, 7, 10, 11]].tolist() == [
        [1, 2],
        [1, 2],
        [2, 3],
        [3, 4],
        [3, 4],
        [IGNORED, 4],
    ]
    assert (batch.places[1, 4:] == IGNORED).all()


def test_guidance_is_low_where_heads_attend_to_the_right_words() -> None:
    """Keys that are one-hot places in the text, queries that ask for the right ones."""
    batch = collate_valle([(say([1]), say([0, 2])), (say([2]),)], LAYOUT, heads=3)
    places = batch.places.clamp(min=0)
    texts, frames = batch.text.shape[1], places.shape[1]
    middle = torch.zeros(2, texts + frames, 24)
    middle[:, :texts, :8] = torch.eye(8)[torch.arange(texts)]
    middle[:, texts:, 8:] = torch.eye(8)[places].flatten(2)
    attention = Attention(24, heads=3, dropout=0.0)
    with torch.no_grad():
        attention.in_proj_weight.zero_()
        for head in range(2):
            rows = slice(8 * head, 8 * head + 8)
            attention.in_proj_weight[rows, 8 + 8 * head : 16 + 8 * head] = 40 * torch.eye(8)
            attention.in_proj_weight[24 + 8 * head : 32 + 8 * head, :8] = torch.eye(8)
    right = guidance_loss(attention, middle, batch)
    wrong = guidance_loss(attention, middle.roll(1, dims=1), batch)
    assert float(right.detach()) < 0.01
    assert float(wrong.detach()) > 1


def test_fresh_heads_look_back() -> None:
    """Head h of the first layer begins by attending about h + 1 places back."""
    config = ValleConfig(dim=160, heads=5, layers=1, quantizers=2, text_tokens=9, nar_scale=0.2)
    ar = fresh_valle(config, seed=0).ar.eval()
    layer = ar.ar_decoder.layers[0]
    codes = torch.randint(0, 1024, (1, 60), generator=torch.Generator().manual_seed(0))
    x = layer.norm1(ar.ar_audio_position(ar.ar_audio_embedding(codes)))
    fused = torch.nn.functional.linear(x, layer.self_attn.in_proj_weight)
    query, key, _ = fused.view(60, 3, 5, 32).permute(1, 2, 0, 3)
    scores = (query @ key.mT)[:4].masked_fill(~torch.ones(60, 60).tril().bool(), -torch.inf)
    found = torch.arange(60) - scores.argmax(-1)
    for head in range(4):
        assert ((found[head, 10:] - head - 1).abs() <= 1).float().mean() > 0.95


@pytest.mark.parametrize("kind", [TinyARTraining, TinyNARTraining])
def test_resumed_run_equals_undisturbed_run(kind: type[StageTraining], tmp_path: Path) -> None:
    """A kill after a step that was logged but not saved."""
    undisturbed, resumed = fresh(), fresh()
    kind(tmp_path / "whole", undisturbed).run()
    with pytest.raises(KeyboardInterrupt):
        kind(tmp_path / "cut", fresh()).run(killed_at(5))
    again = kind(tmp_path / "cut", resumed)
    again.run()
    for name, value in undisturbed.valle.state().items():
        assert torch.equal(value, resumed.valle.state()[name]), name
    assert torch.equal(undisturbed.extras.predictions, resumed.extras.predictions)
    log = again.folder.relative_to(tmp_path / "cut") / "metrics.jsonl"
    whole, cut = ((tmp_path / name / log).read_text() for name in ("whole", "cut"))
    assert cut == whole
    assert [json.loads(line)["step"] for line in whole.splitlines()] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("kind", [TinyARTraining, TinyNARTraining])
def test_losses_fall(kind: type[StageTraining], tmp_path: Path) -> None:
    config = StageConfig(steps=60, warmup_steps=4, decay_steps=20, log_every=1)
    training = kind(tmp_path, fresh(dataclasses.replace(CONFIG, ar=config, nar=config)))
    training.run()
    logged = list(read_jsonl(training.folder / "metrics.jsonl"))
    first, last = (np.mean([v["loss"] for v in part]) for part in (logged[:5], logged[-5:]))
    assert last < 0.8 * first
    if kind is TinyARTraining:
        begin, end = (np.mean([v["head_losses"] for v in p], 0) for p in (logged[:5], logged[-5:]))
        right = np.array([values["head_accuracies"] for values in logged])
        assert right.shape[1] == len(begin) + 1  # the AR's own head comes first
        assert 0 <= right.min() < right.max() <= 1
        assert (end < begin).all()
        assert begin.shape == (2,)


def test_export_is_what_decoding_reads(tmp_path: Path) -> None:
    run = fresh()
    TinyARTraining(tmp_path, run).run()
    run.export(tmp_path)
    folder = tmp_path / "target"
    assert {t.dtype for t in load_file(folder / "model.safetensors").values()} == {torch.float16}
    loaded = load_valle(folder)
    assert (loaded.config.dim, loaded.config.quantizers, loaded.config.nar_layers) == (16, 3, 1)
    model = ValleLM.load(folder)
    assert model.layout == LAYOUT
    options = {"target": folder, "dtype": torch.float32, "device": torch.device("cpu")}
    heads = load_heads(tmp_path / "heads", None, **options)
    hidden = torch.randn(2, 16)
    torch.testing.assert_close(heads(hidden)[:, 0], model.logits(hidden))
    assert heads(hidden).shape == (2, 3, 13)


def test_a_run_begins_with_the_ar_and_the_heads_of_another(tmp_path: Path) -> None:
    run = fresh()
    TinyARTraining(tmp_path, run).run()
    run.export(tmp_path)
    config = dataclasses.replace(CONFIG, init=tmp_path, seed=2)
    begun, other = fresh(config), fresh(dataclasses.replace(CONFIG, seed=2))
    for name, value in run.valle.ar.state_dict().items():
        assert torch.equal(begun.valle.ar.state_dict()[name], value.half().float()), name
    assert torch.equal(begun.extras.predictions, run.extras.predictions.half().float())
    for name, value in other.valle.nar.state_dict().items():
        assert torch.equal(begun.valle.nar.state_dict()[name], value), name
    assert config.batch.stages == config.nar_batch.stages == FLUENT
    with pytest.raises(ValueError, match="heads is of another model"):
        fresh(dataclasses.replace(config, predictions=4))


def test_the_command_hands_over_what_to_begin_with(tmp_path: Path) -> None:
    config = TrainTargetConfig(init=str(tmp_path), first_shard=90, steps=40)
    settings = TrainValleConfig.of(config)
    assert (settings.init, settings.first_shard, settings.ar.steps) == (tmp_path, 90, 40)
    with pytest.raises(ValueError, match="compile and acoustic_pull are not there"):
        TrainValleConfig.of(dataclasses.replace(config, acoustic_pull=0.1))


def test_labels_are_spread_over_what_sounds_like_them() -> None:
    """Where one code is likely, but three that sound alike are likelier, one of those is said."""
    books = torch.tensor([[[5.0, 0], [0, 1.0], [0, 1.1], [0, 1.2]]])
    near = nearby(books, spread=1.0)
    torch.testing.assert_close(near.sum(-1), torch.ones(1, 4))
    assert (near[0].argmax(-1) == torch.arange(4)).all()
    law = torch.tensor([0.28, 0.24, 0.24, 0.24])
    assert int((law @ near[0]).argmax()) != 0
    assert int((law @ nearby(books, spread=1e-6)[0]).argmax()) == 0


def test_codes_begin_as_they_sound() -> None:
    nar, book = fresh().valle.nar, torch.from_numpy(BOOKS[1])
    before = nar.nar_stage_embeddings[0].weight.clone()
    sound_alike(nar, torch.from_numpy(BOOKS), seed=3)
    read, said = nar.nar_audio_embeddings[1].weight, nar.nar_predict_layers[0].weight
    assert torch.equal(read, said)
    assert float(read.detach().std()) == pytest.approx(0.3, rel=1e-4)
    pairs = torch.stack([torch.pdist(read.detach()), torch.pdist(book)])
    assert float(torch.corrcoef(pairs)[0, 1]) > 0.3  # 16 dimensions of 108
    assert torch.equal(nar.nar_stage_embeddings[0].weight, before)
