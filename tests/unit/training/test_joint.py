"""The papers' training of VALL-E and USLM, shrunken: AR with heads, then NAR, by the recipe."""

import io
import json
import shutil
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from killed_trainings import killed_before
from safetensors.torch import load_file
from small_target import save_codes
from valle_folders import write_valle

from speculative_tts.commands.train_heads import main
from speculative_tts.models.families.valle.checkpoint import load_valle
from speculative_tts.models.families.valle.layout import read_layout
from speculative_tts.models.heads import read_heads, target_hash
from speculative_tts.records import read_jsonl
from speculative_tts.training.joint import BoundedTraining, JointNARTraining
from speculative_tts.training.scaled_adam import ScaledAdam

SMALL = ["device=cpu", "dtype=float32", "n=3", "warmup=4", "eval_every=5", "save_every=3"]
BATCHES = ["joint.epochs=4", "joint.frames=60", "joint.nar_epochs=3", "joint.nar_frames=40"]
BATCHES += ["joint.shortest=5", "joint.accumulate=2"]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A start of three layers of codes and a store of them. Do not write into it."""
    folder = tmp_path_factory.mktemp("inputs")
    write_valle(folder / "start", n_codes=24, quantizers=3)
    save_codes(folder / "codes", layers=3)
    return folder


@pytest.fixture(scope="module")
def arguments(inputs: Path) -> list[str]:
    """What reads the inputs; `place` says where results go."""
    return [f"target.path={inputs / 'start'}", f"codes={inputs / 'codes'}", *SMALL, *BATCHES]


def trained(folder: Path, *settings: str) -> dict[str, Any]:
    """Train into a folder; return the figures that are printed."""
    with redirect_stdout(io.StringIO()) as printed:
        assert main([*settings, *place(folder)]) == 0
    figures: dict[str, Any] = json.loads(printed.getvalue().splitlines()[-1])
    return figures


@pytest.fixture(scope="module")
def whole(
    arguments: list[str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    """The recipe of VALL-E run from beginning to end, and its figures."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, trained(folder, "recipe=valle_heads", *arguments)


def place(folder: Path) -> list[str]:
    return [f"out={folder / 'heads'}", f"target_out={folder / 'target'}"]


def leaves_what_decoding_reads(
    made: Path, start: Path, figures: dict[str, Any], codes: Path, mode: int
) -> None:
    tensors, description = read_heads(made / "heads")
    assert description["target"] == target_hash(made / "target")
    before, after = load_valle(start), load_valle(made / "target")
    assert after.config == before.config
    assert after.config.prefix_mode == mode
    assert read_layout(made / "target") == read_layout(start)
    torch.testing.assert_close(
        tensors.weight[0].float(), after.ar.ar_predict_layer.weight, rtol=0, atol=2e-3
    )
    assert not torch.equal(tensors.weight[1], tensors.weight[2])
    moved = {n for n, t in after.state().items() if not torch.equal(t, before.state()[n])}
    assert {n.partition("_")[0] for n in moved} == {"ar", "nar"}
    for folder in ("heads/training", "heads/training/nar"):
        rows = list(read_jsonl(made / folder / "metrics.jsonl"))
        nats = [row["dev_loss"] for row in rows if "dev_loss" in row]
        assert min(nats) < 0.97 * nats[0], folder
        assert {len(row["dev_accuracies"]) for row in rows if "dev_loss" in row} <= {2, 3}
        assert not list((made / folder).glob("state-*"))
    assert figures["dev_loss"] == pytest.approx(-figures["dev_log_likelihood"])
    all_codes = pq.read_table(codes / "train-0000.parquet").column("codes").to_pylist()
    assert figures["left_out"] == sum(len(one) < 5 for one in all_codes) > 0
    assert {"nar_dev_loss", "nar_best_step"} <= figures.keys()


def test_the_recipe_trains_all_and_leaves_what_decoding_reads(
    inputs: Path, whole: tuple[Path, dict[str, Any]]
) -> None:
    made, figures = whole
    leaves_what_decoding_reads(made, inputs / "start", figures, inputs / "codes", mode=1)


def test_uslms_recipe_does_too(inputs: Path, arguments: list[str], tmp_path: Path) -> None:
    start = tmp_path / "start"
    shutil.copytree(inputs / "start", start)
    config = json.loads((start / "config.json").read_text())
    (start / "config.json").write_text(json.dumps(config | {"prefix_mode": 0}))
    figures = trained(tmp_path, "recipe=uslm_heads", *arguments, f"target.path={start}")
    leaves_what_decoding_reads(tmp_path, start, figures, inputs / "codes", mode=0)


def test_it_is_the_published_optimiser(arguments: list[str], tmp_path: Path) -> None:
    """ScaledAdam at 0.05, Eden that begins at a half, and no clipping of the gradient."""
    assert main(["recipe=valle_heads", *arguments, *place(tmp_path), "joint.epochs=1"]) == 0
    rows = [row for row in read_jsonl(tmp_path / "heads/training/metrics.jsonl") if "loss" in row]
    assert rows[0]["learning_rate"] == pytest.approx(0.05 * 0.5)  # then two batches a step, of 4
    assert [row["learning_rate"] for row in rows[1:3]] == pytest.approx([0.0375, 0.05], rel=1e-4)
    assert max(row["gradient_norm"] for row in rows) > 3  # of sums, beyond the other rule's clip


@pytest.mark.parametrize("dies_in", [BoundedTraining, JointNARTraining])
def test_a_killed_training_ends_where_another_does(
    arguments: list[str],
    tmp_path: Path,
    dies_in: type[BoundedTraining[object]],
    whole: tuple[Path, dict[str, Any]],
) -> None:
    """Dropout too is a function of the batch's number."""
    again = ["recipe=valle_heads", *arguments, *place(tmp_path)]
    with killed_before(5, dies_in):
        assert main(again) == 130
    assert main(again) == 0
    for name in ("target/model.safetensors", "heads/heads.safetensors"):
        assert (tmp_path / name).read_bytes() == (whole[0] / name).read_bytes(), name


def test_a_step_of_bfloat16_is_finite_and_its_weights_float32(
    arguments: list[str], tmp_path: Path
) -> None:
    options = ["dtype=bfloat16", "joint.epochs=2", "joint.nar_epochs=1"]
    assert main(["recipe=valle_heads", *arguments, *options, *place(tmp_path)]) == 0
    stored = load_file(tmp_path / "target/model.safetensors")
    assert all(tensor.isfinite().all() for tensor in stored.values())
    assert stored["ar_predict_layer.weight"].dtype == torch.float32
    rows = list(read_jsonl(tmp_path / "heads/training/metrics.jsonl"))
    nats = [row["dev_loss"] for row in rows if "dev_loss" in row]
    assert min(nats) < nats[0]


def test_dropout_is_on_while_learning_and_off_on_dev(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    plain = torch.nn.functional.dropout

    def noted(x: torch.Tensor, p: float, training: bool = True, *rest: object) -> torch.Tensor:
        seen.append(training)
        return plain(x, p, training)

    monkeypatch.setattr(torch.nn.functional, "dropout", noted)
    monkeypatch.setattr(ScaledAdam, "step", lambda self: None)
    assert main(["recipe=valle_heads", *arguments, *place(tmp_path), "joint.epochs=1"]) == 0
    assert {*seen} == {True, False}
    rows = list(read_jsonl(tmp_path / "heads/training/metrics.jsonl"))
    assert len({row["dev_loss"] for row in rows if "dev_loss" in row}) == 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("joint.frames=2", "none of 24 utterances has 5 to 2 codes; raise joint.frames"),
        ("joint.accumulate=0", "joint.accumulate 0 is below 1"),
        ("n=1", "n 1 is below 2"),
    ],
)
def test_mistakes_are_told(
    arguments: list[str],
    tmp_path: Path,
    option: str,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["recipe=valle_heads", *arguments, *place(tmp_path), option]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("whose", "layers", "message"),
    [
        ("recorded", 1, "first/train-0000.parquet has no residual_codes; a NAR learns from all"),
        ("target", 1, "first/train-0000.parquet has no residual_codes; a NAR learns from all"),
        ("mix", 1, "give codes_from=recorded and codes of the target's codec, or joint.nar_epochs"),
        ("mix", 2, "train utterances have 2 or 3 layers of codes, the target 3; make them with"),
    ],
)
def test_codes_of_fewer_layers_are_told_before_anything_is_trained(
    arguments: list[str],
    tmp_path: Path,
    whose: str,
    layers: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They were when the AR, which had been trained for hours, was done."""
    save_codes(tmp_path / "first", layers)
    key = "codes" if whose == "recorded" else "own"
    where = [f"codes_from={whose}", f"{key}={tmp_path / 'first'}", *place(tmp_path)]
    assert main(["recipe=valle_heads", *arguments, *where]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "heads/training").exists()


def test_an_ar_learns_from_own_codes_and_a_nar_where_they_have_all_layers(
    inputs: Path, arguments: list[str], tmp_path: Path
) -> None:
    save_codes(tmp_path / "first")
    save_codes(tmp_path / "all", layers=3)
    for own, nar in (("first", ["joint.nar_epochs=0"]), ("all", ["joint.nar_epochs=1"])):
        whose = ["codes_from=mix", f"own={tmp_path / own}", "joint.epochs=1", *nar]
        figures = trained(tmp_path / own, "recipe=valle_heads", *arguments, *whose)
        codes = pq.read_table(inputs / "codes/train-0000.parquet").column("codes").to_pylist()
        assert figures["left_out"] == 2 * sum(len(one) < 5 for one in codes) > 0
        assert figures.get("nar_left_out", figures["left_out"]) == figures["left_out"]
        assert ("nar_dev_loss" in figures) == (own == "all")
