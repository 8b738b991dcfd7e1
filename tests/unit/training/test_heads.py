"""sst-train-heads: targets ahead, heads that learn, a killed training that ends the same."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import own_process
import pytest
import torch
from accelerate import Accelerator
from cosyvoice_folders import SIZES, write_official
from killed_trainings import killed_before
from small_target import save_codes
from test_recurrent import RECURRENT

from speculative_tts.commands.train_heads import main
from speculative_tts.models.decoder.loading import read_state
from speculative_tts.models.families.registry import load_layout
from speculative_tts.models.families.row_layout import RowLayout
from speculative_tts.models.heads import read_heads, target_hash
from speculative_tts.records import read_jsonl
from speculative_tts.schema.common import CheckpointConfig
from speculative_tts.schema.train import HeadKind, LossConfig, TrainHeadsConfig
from speculative_tts.training import heads
from speculative_tts.training.checkpoint import read_checkpoint
from speculative_tts.training.data.pairs import IGNORED, SequenceBatch
from speculative_tts.training.headed import head_targets
from speculative_tts.training.recurrent import RecurrentTrunk
from speculative_tts.training.state import settings_of

STOP = 24
JOINT = ["train_trunk=true", "joint.frames=30"]


def test_targets_look_ahead_and_end_with_the_stop_id() -> None:
    targets = torch.tensor([[IGNORED, 1, 2, STOP, IGNORED], [IGNORED, IGNORED, 5, 6, STOP]])
    found = head_targets(targets, 3, STOP)
    nothing = [IGNORED] * 3
    assert found[0].tolist() == [nothing, [1, 2, STOP], [2, STOP, STOP], [STOP] * 3, nothing]
    assert found[1].tolist() == [nothing, nothing, [5, 6, STOP], [6, STOP, STOP], [STOP] * 3]


def test_nobody_knows_what_is_behind_a_cut() -> None:
    """A false end was taught there, and the states of the next sequence read."""
    targets = torch.tensor([[IGNORED, 1, 2, 3], [4, 5, STOP, IGNORED]])
    found = head_targets(targets, 3, STOP)
    assert found[0].tolist() == [[IGNORED] * 3, [1, 2, 3], [2, 3, IGNORED], [3, IGNORED, IGNORED]]
    assert found[1].tolist() == [[4, 5, STOP], [5, STOP, STOP], [STOP] * 3, [IGNORED] * 3]


KINDS = {
    "linear": [],
    "residual": ["kind=residual"],
    "recurrent": ["kind=recurrent", "losses.lk=1", "losses.ce=0"],
    "with their trunk": JOINT,
}


@pytest.mark.parametrize("kind", KINDS)
def test_recomputing_for_the_gradient_changes_nothing(
    arguments: list[str], tmp_path: Path, kind: str
) -> None:
    for out, more in (("kept", []), ("again", ["gradient_checkpointing=true"])):
        assert main([*arguments, *KINDS[kind], *more, f"out={tmp_path / out}"]) == 0
    for one in (tmp_path / "kept").rglob("*.safetensors"):
        other = tmp_path / "again" / one.relative_to(tmp_path / "kept")
        assert one.read_bytes() == other.read_bytes()
    assert (tmp_path / "again/training/settings.json").read_bytes() == (
        tmp_path / "kept/training/settings.json"
    ).read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_learns_as_float32_does(
    arguments: list[str], tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a frozen trunk the weights are bfloat16 too, which evaluations once did not expect."""
    figures = []
    for dtype in ("float32", "bfloat16"):
        own_process.renew()
        assert main([*arguments, *KINDS[kind], f"dtype={dtype}", f"out={tmp_path / dtype}"]) == 0
        figures.append(json.loads(capsys.readouterr().out.splitlines()[-1])["dev_loss"])
    assert figures[1] == pytest.approx(figures[0], rel=0.02)
    assert figures[1] != figures[0]


def test_accumulated_batches_are_those_of_several_processes(
    arguments: list[str], tmp_path: Path
) -> None:
    """Two batches a step and half the steps read the same positions as one and all of them.

    Nothing is learnt, so that each loss of the one is the mean of two losses of the other. (Before,
    first losses were compared within 5 %, which also one batch of two would have passed.)
    """
    for out, more in (("one", ["steps=6"]), ("two", ["steps=3", "accumulate=2"])):
        still = [*more, "learning_rate=1e-30", f"out={tmp_path / out}"]
        assert main([*arguments, *still]) == 0
    one, two = (
        [row["loss"] for row in read_jsonl(tmp_path / out / "training/metrics.jsonl")
         if "loss" in row]
        for out in ("one", "two")
    )  # fmt: skip
    means = [(first + second) / 2 for first, second in zip(one[::2], one[1::2], strict=True)]
    assert two == pytest.approx(means, rel=1e-5)
    assert two != pytest.approx(one[::2], rel=1e-4)  # the first batch alone is told from both


@pytest.mark.parametrize("extra", [[], ["kind=residual"], ["optimiser=scaled_adam"]])
def test_heads_learn_and_belong_to_their_target(
    arguments: list[str], tmp_path: Path, extra: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "heads"
    assert main([*arguments, *extra, f"out={out}", "steps=30", "learning_rate=0.02"]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert len(figures["dev_accuracies"]) == 3
    losses = list(read_jsonl(out / "training" / "metrics.jsonl"))
    losses = [row["loss"] for row in losses if "loss" in row]
    assert sum(losses[-5:]) < 0.98 * sum(losses[:5])
    tensors, description = read_heads(out)
    target = Path(arguments[0].partition("=")[2])
    assert description["target"] == target_hash(target)
    own = read_state(target)["lm_head.weight"][: len(tensors.weight[0])]
    torch.testing.assert_close(tensors.weight[0], own.half(), atol=1e-3, rtol=1e-3)
    assert tensors.kind == ("residual" if extra == ["kind=residual"] else "linear")


@pytest.mark.parametrize("extra", [[], JOINT, [*JOINT, "codes_from=mix"]])
def test_a_killed_training_ends_where_another_does(
    arguments: list[str], tmp_path: Path, extra: list[str]
) -> None:
    save_codes(tmp_path / "own")
    arguments = [*arguments, f"own={tmp_path / 'own'}"]
    assert main([*arguments, *extra, f"out={tmp_path / 'whole'}"]) == 0
    with killed_before(5):
        assert main([*arguments, *extra, f"out={tmp_path / 'killed'}"]) == 130
    assert main([*arguments, *extra, f"out={tmp_path / 'killed'}"]) == 0
    whole, killed = (read_heads(tmp_path / name)[0] for name in ("whole", "killed"))
    assert torch.equal(whole.weight, killed.weight)
    if extra:
        assert (tmp_path / "whole" / "target" / "speech.json").is_file()
        assert read_heads(tmp_path / "whole")[1]["target"] == target_hash(tmp_path / "whole/target")


def test_a_cosyvoice_target_gets_heads_of_its_speech_rows(codes: Path, tmp_path: Path) -> None:
    write_official(tmp_path / "cosy", 24)
    options = ["n=2", "steps=2", "batch_size=8", "sequences=8", "eval_every=2", "dev_utterances=2"]
    where = [f"target.path={tmp_path / 'cosy'}", f"codes={codes}", f"out={tmp_path / 'heads'}"]
    assert main([*where, *options]) == 0
    tensors, description = read_heads(tmp_path / "heads")
    assert tensors.weight.shape == (2, 24 + 3, SIZES["hidden_size"])  # codes and three stop ids
    assert tensors.bias is not None
    assert description["target"] == target_hash(tmp_path / "cosy")


def test_a_target_whose_codes_are_vocabulary_rows_gets_heads_of_them(tmp_path: Path) -> None:
    """Trained from copies of its rows; the first prediction ahead is learnt in speech ids."""
    llasa, codes = Path(__file__).parents[2] / "golden/llasa/model_1b_style", tmp_path / "codes"
    save_codes(codes)
    options = ["n=3", "steps=30", "batch_size=32", "sequences=8", "dev_utterances=2"]
    options.append("learning_rate=0.02")
    where = [f"target.path={llasa}", f"codes={codes}", f"out={tmp_path / 'heads'}"]
    assert main([*where, *options, "eval_every=30"]) == 0
    tensors, description = read_heads(tmp_path / "heads")
    layout = load_layout(CheckpointConfig(name="llasa", path=str(llasa)))
    assert isinstance(layout, RowLayout)
    source, stored = read_checkpoint(llasa)
    own = stored.get("lm_head.weight", stored["model.embed_tokens.weight"])
    assert tensors.weight.shape == (3, layout.n_codes + 1, source["hidden_size"])
    expected = own[layout.order(text_rows=False)]
    torch.testing.assert_close(tensors.weight[0].float(), expected.float(), atol=1e-3, rtol=1e-3)
    losses = list(read_jsonl(tmp_path / "heads/training/metrics.jsonl"))
    losses = [row["loss"] for row in losses if "loss" in row]
    assert sum(losses[-5:]) < 0.98 * sum(losses[:5])
    assert description["target"] == target_hash(llasa)


def test_a_finished_training_is_not_done_again(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It trained from the beginning: a finished one had left no state."""
    out = tmp_path / "heads"
    assert main([*arguments, f"out={out}"]) == 0
    first, before = capsys.readouterr().out, (out / "heads.safetensors").stat()
    assert {path.name for path in (out / "training").iterdir()} == {
        "settings.json",
        "metrics.jsonl",
        "summary.json",
    }
    assert main([*arguments, f"out={out}"]) == 0
    assert capsys.readouterr().out == first
    assert (out / "heads.safetensors").stat() == before
    assert main([*arguments, f"out={out}", "steps=7"]) == 2
    assert "was made with steps=6, now 7; use the same settings" in capsys.readouterr().err


class SeenError(Exception):
    """Ends a training once it has been looked at."""


@pytest.mark.parametrize("kind", [HeadKind.linear, HeadKind.recurrent])
def test_the_target_is_on_the_device_when_it_is_first_run(
    target: Path, codes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: HeadKind
) -> None:
    """With device=cuda the check of the codes ran a target on the CPU on ids of the GPU."""

    def check(headed: RecurrentTrunk, batch: SequenceBatch) -> None:
        assert batch.inputs.device == torch.device("meta")
        assert {p.device for p in headed.parameters()} == {batch.inputs.device}
        raise SeenError

    monkeypatch.setattr(heads, "_check_codes", check)
    config = TrainHeadsConfig(
        target=CheckpointConfig("fake", str(target)), codes=str(codes), out=str(tmp_path),
        kind=kind, n=3, losses=LossConfig(), dev_utterances=4, sequences=24,
    )  # fmt: skip
    elsewhere = SimpleNamespace(device=torch.device("meta"), is_main_process=True, num_processes=1)
    with pytest.raises(SeenError):
        heads.train_heads(config, cast(Accelerator, elsewhere))


def test_trainings_from_before_blocks_go_on() -> None:
    """They have no such setting: one of one block is what they are."""
    one, two = (settings_of(TrainHeadsConfig(blocks=blocks)) for blocks in (1, 2))
    assert "blocks" not in one
    assert two == one | {"blocks": 2}


@pytest.mark.parametrize("kind", ["linear", "residual", "recurrent"])
def test_a_training_begins_with_an_earlier_one(
    arguments: list[str], tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What next to no learning rate leaves is what was there; another size or target is told."""
    earlier, later, new = (tmp_path / name for name in ("earlier", "later", "new"))
    of_kind = [*arguments, *(RECURRENT if kind == "recurrent" else [f"kind={kind}"])]
    still = [*of_kind, "steps=1", "learning_rate=1e-12"]
    given = {
        earlier: [*of_kind, "steps=40", "learning_rate=0.02"],
        new: still,
        later: [*still, f"init={earlier}"],
    }
    losses = {}
    for out, options in given.items():
        assert main([*options, f"out={out}"]) == 0
        losses[out] = json.loads(capsys.readouterr().out.splitlines()[-1])["dev_loss"]
    assert losses[new] > losses[earlier] + 0.05
    assert losses[later] == pytest.approx(losses[earlier], abs=0.005)
    other = "width=24" if kind == "recurrent" else "n=4"
    assert main([*given[later], other, f"out={tmp_path / 'other'}"]) == 2
    assert "as they were there" in capsys.readouterr().err
    assert main([*still, f"init={new}", f"out={later}"]) == 2
    assert "was made with init=" in capsys.readouterr().err
