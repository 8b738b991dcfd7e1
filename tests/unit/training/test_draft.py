import dataclasses
import json
from types import SimpleNamespace

import pytest
import torch
from accelerate.utils import DistributedType
from safetensors.torch import load_file, save_file
from small_target import LAYOUT, save_target
from transformers import AutoModelForCausalLM

from speculative_tts.records import read_jsonl
from speculative_tts.schema.common import CheckpointConfig, Device, DType
from speculative_tts.schema.train import (
    DevFigure,
    LossConfig,
    TrainDraftConfig,
    TrainHeadsConfig,
)
from speculative_tts.training import devices
from speculative_tts.training.checkpoint import TargetCheckpoint, build_model, read_checkpoint
from speculative_tts.training.data.pairs import (
    IGNORED,
    PromptedSequences,
    load_data,
)
from speculative_tts.training.devices import accelerator_for
from speculative_tts.training.draft import DraftTraining, make_draft
from speculative_tts.training.heads import train_heads
from speculative_tts.training.journal import silent
from speculative_tts.training.objective import warn_of_other_codes


@pytest.fixture
def config(tmp_path, target, codes):
    return TrainDraftConfig(
        target=CheckpointConfig("small", str(target)),
        codes=str(codes),
        out=str(tmp_path / "draft"),
        layers=[0, 3],
        steps=6,
        train_layers=1,
        batch_size=4,
        warmup=2,
        learning_rate=1e-2,
        eval_every=2,
        save_every=2,
    )


def train(config, track=silent):
    return make_draft(config, accelerator_for(Device.cpu), track)


def weights(folder):
    return load_file(folder / "model.safetensors")


def test_policy_holds_and_the_draft_learns(tmp_path, target, config):
    config = dataclasses.replace(config, steps=30, eval_every=10)
    summary = train(config)
    draft, source = weights(tmp_path / "draft"), weights(target)
    changed = {n for n, t in draft.items() if not torch.equal(t, source[n.replace("1.", "3.", 1)])}
    assert changed == {n for n in draft if n.startswith(("model.layers.0.", "lm_head."))}
    rows = list(read_jsonl(tmp_path / "draft/training/metrics.jsonl"))
    assert rows[0]["step"] == 0
    assert rows[0]["dev_accuracy"] < summary["dev_accuracy"]
    assert summary["dev_accuracy"] == max(r["dev_accuracy"] for r in rows if "dev_accuracy" in r)
    assert 0 < summary["dev_acceptance"] < 1


def test_exported_draft_is_an_ordinary_checkpoint(tmp_path, target, config):
    train(config)
    folder = tmp_path / "draft"
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.config.num_hidden_layers == 2
    assert (folder / "speech.json").read_bytes() == (target / "speech.json").read_bytes()
    inheritance = json.loads((folder / "inheritance.json").read_text())
    assert inheritance["layers"] == [0, 3]
    assert len(inheritance["target_sha256"]) == 64
    left = {path.name for path in (folder / "training").iterdir()}
    assert left == {"settings.json", "metrics.jsonl", "summary.json"}


@pytest.mark.parametrize(("family", "tied"), [("qwen2", False), ("qwen3", True), ("llama", True)])
def test_works_as_transformers_assistant_model(tmp_path, config, family, tied):
    model = save_target(tmp_path / family, family, tied=tied)
    target = CheckpointConfig(family, str(tmp_path / family))
    train(dataclasses.replace(config, target=target, steps=2))
    draft = AutoModelForCausalLM.from_pretrained(tmp_path / "draft")
    prompt = torch.tensor([[LAYOUT.sos_id, LAYOUT.text_offset, LAYOUT.task_id]])
    greedy = {"max_new_tokens": 20, "do_sample": False, "attention_mask": torch.ones_like(prompt)}
    alone = model.generate(prompt, **greedy)
    assert torch.equal(model.generate(prompt, assistant_model=draft, **greedy), alone)


def test_a_loss_that_had_no_weight_and_is_gone_is_no_other_setting(tmp_path, config):
    first, path = train(config), tmp_path / "draft/training/settings.json"
    made = json.loads(path.read_text())

    def write(weight):
        path.write_text(json.dumps(made | {"losses": made["losses"] | {"former": weight}}))

    write(0.0)
    assert train(config) == first
    write(1.0)
    with pytest.raises(ValueError, match=r"was made with losses=\{.*'former': 1.0\}, now"):
        train(config)


def test_distillation_raises_acceptance_above_cross_entropy(tmp_path, config):
    """The codes have nothing to do with the random target, so only the target's own law helps."""
    config = dataclasses.replace(config, steps=60, eval_every=20, select=DevFigure.acceptance)
    plain = train(dataclasses.replace(config, out=str(tmp_path / "ce")))
    distilled = dataclasses.replace(config, losses=LossConfig(ce=0.0, tv=1.0))
    assert train(distilled)["dev_acceptance"] > plain["dev_acceptance"] + 0.02


def test_batches_that_are_added_up_are_one_batch(tmp_path, config):
    """Sequences differ in length: the mean is over positions, not over batches."""
    settings = {"one": {"batch_size": 6}, "added": {"batch_size": 2, "accumulate": 3}}
    for name, sizes in settings.items():
        train(dataclasses.replace(config, out=str(tmp_path / name), **sizes))
    losses = {
        name: [
            r["loss"] for r in read_jsonl(tmp_path / name / "training/metrics.jsonl") if "loss" in r
        ]
        for name in settings
    }
    assert losses["one"] == pytest.approx(losses["added"], rel=1e-4)
    one, added = weights(tmp_path / "one"), weights(tmp_path / "added")
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, added[name], atol=2e-4, rtol=1e-3)


def test_a_model_is_read_without_being_made_at_random_first(target):
    """Random numbers for the 8.5 billion weights of LLaSA-8B take minutes, and 34 GB."""
    config, tensors = read_checkpoint(target)
    before = torch.get_rng_state()
    model = build_model(config, tensors, torch.float32)
    assert torch.equal(torch.get_rng_state(), before)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, tensors[name])
        assert parameter.data_ptr() != tensors[name].data_ptr()  # it will be trained
        assert parameter.requires_grad


@pytest.mark.parametrize("distilled", [False, True])
def test_the_target_is_loaded_when_it_is_needed_in_the_runs_dtype(config, monkeypatch, distilled):
    events = []
    model, run = TargetCheckpoint.model, DraftTraining.run

    def loaded(source, dtype, device):
        events.append(dtype)
        return model(source, dtype, device)

    def trained(*arguments):
        run(*arguments)
        events.append("trained")

    monkeypatch.setattr(TargetCheckpoint, "model", loaded)
    monkeypatch.setattr(DraftTraining, "run", trained)
    losses = LossConfig(ce=0.0, tv=1.0) if distilled else LossConfig()
    train(dataclasses.replace(config, steps=1, dtype=DType.bfloat16, losses=losses))
    order = [torch.bfloat16, "trained"] if distilled else ["trained", torch.bfloat16]
    assert events == [torch.bfloat16, *order]  # the first one looks at the codes and goes


@pytest.mark.parametrize("renumbered", [False, True])
def test_codes_of_another_codec_are_told(target, codes, caplog, renumbered):
    """Such codes are in range, and a draft was trained on them in silence."""
    small = CheckpointConfig("small", str(target))
    asked = TrainDraftConfig(small, codes=str(codes), dev_utterances=6, seed=0)
    batch = load_data(asked, 6).dev[0]
    answers = batch.targets[batch.targets != IGNORED]
    order = torch.randperm(LAYOUT.vocab_size, generator=torch.Generator().manual_seed(0))
    knowing = 6.0 * torch.nn.functional.one_hot(answers, LAYOUT.vocab_size)  # as a trained target
    warn_of_other_codes(knowing, order[answers] if renumbered else answers)
    assert ("they are another codec's" in caplog.text) == renumbered


@pytest.mark.parametrize("what", ["draft", "heads"])
def test_every_training_on_a_targets_codes_looks_at_them(config, target, codes, caplog, what):
    """Heads were not: this target is untrained, so no codes are likelier to it than others."""
    if what == "draft":
        train(dataclasses.replace(config, steps=1))
    else:
        where = {"target": CheckpointConfig("small", str(target)), "codes": str(codes)}
        sizes = {"n": 2, "steps": 1, "sequences": 2, "dev_utterances": 2}
        train_heads(TrainHeadsConfig(**where, **sizes, out=config.out), accelerator_for(Device.cpu))
    assert "they are another codec's" in caplog.text


@pytest.mark.parametrize("same", [False, True])
def test_a_head_that_is_stored_beside_tied_embeddings(tmp_path, config, caplog, same):
    """As in LLaSA-3B: another one is kept and said, an equal one is the embeddings."""
    source = save_target(tmp_path / "llama", "llama", tied=True)
    path = tmp_path / "llama/model.safetensors"
    stored = load_file(path)
    head = stored["model.embed_tokens.weight"] + (0.0 if same else 1.0)
    save_file(stored | {"lm_head.weight": head}, path, metadata={"format": "pt"})
    target = CheckpointConfig("llama", str(tmp_path / "llama"))
    train(dataclasses.replace(config, target=target, train_head=False, steps=1))
    draft = weights(tmp_path / "draft")
    written = json.loads((tmp_path / "draft/config.json").read_text())
    assert ("the stored head is used" in caplog.text) is not same
    assert written["tie_word_embeddings"] is same
    assert ("lm_head.weight" in draft) is not same
    if not same:
        assert torch.equal(draft["lm_head.weight"], head)
        read = build_model(*read_checkpoint(tmp_path / "llama"), torch.float32)
        assert torch.equal(read.lm_head.weight, head)
        assert not torch.equal(read.lm_head.weight, source.lm_head.weight)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda t: (t / "model.safetensors").unlink(), "no model.safetensors in"),
        (lambda t: (t / "model.safetensors").write_bytes(b"x" * 99), "not readable as safetensors"),
        (lambda t: (t / "config.json").unlink(), "no config.json in"),
        (lambda t: (t / "config.json").write_text("{"), "is not a JSON object"),
    ],
)
def test_broken_targets_are_named(target, config, damage, message):
    damage(target)
    with pytest.raises(ValueError, match=message) as raised:
        train(config)
    assert "\n" not in str(raised.value)


def test_a_launch_that_shards_is_refused(monkeypatch):
    """It would train, and then save what one process has of the draft."""
    launched = SimpleNamespace(distributed_type=DistributedType.FSDP)
    monkeypatch.setattr(devices, "Accelerator", lambda **_: launched)
    with pytest.raises(ValueError, match=r"launched with FSDP, .*: torchrun, or accelerate launch"):
        accelerator_for(Device.cpu)


def test_muon_trains_the_layers(tmp_path, config):
    for muon in (True, False):
        train(dataclasses.replace(config, muon=muon, out=str(tmp_path / f"{muon}")))
    layer = "model.layers.0.mlp.up_proj.weight"
    assert not torch.equal(*(weights(tmp_path / name)[layer] for name in ("True", "False")))


def test_goes_on_from_an_earlier_draft_of_the_same_shape(tmp_path, config):
    train(config)
    onward = dataclasses.replace(config, init=config.out, out=str(tmp_path / "onward"), steps=0)
    train(onward)
    first, second = weights(tmp_path / "draft"), weights(tmp_path / "onward")
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    other = dataclasses.replace(onward, layers=[0, 1, 3], out=str(tmp_path / "other"))
    with pytest.raises(ValueError, match=r"num_hidden_layers=2, this draft 3; give a draft"):
        train(other)


def test_what_init_has_heard_is_passed_over(config, monkeypatch):
    heard = []
    monkeypatch.setattr(PromptedSequences, "batch", recording(PromptedSequences.batch, heard))
    train(dataclasses.replace(config, steps=2, first_sequence=10))
    training = [numbers for numbers in heard if numbers.start >= 10]
    assert training == [range(10, 14), range(14, 18)]


def recording(batch, heard):
    def recorded(pairs, numbers):
        heard.append(numbers)
        return batch(pairs, numbers)

    return recorded
