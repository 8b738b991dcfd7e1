"""Trainings in processes of their own: killed and continued, and two at once."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file
from small_target import save_codes, save_target
from valle_folders import write_valle

from speculative_tts.commands import train_draft

MODULE = "speculative_tts.commands.train_draft"
OPTIONS = ["layers=[0,3]", "warmup=2", "learning_rate=0.01", "eval_every=3", "save_every=5"]


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture
def options(tmp_path):
    target, codes = tmp_path / "target", tmp_path / "codes"
    save_target(target)
    save_codes(codes)
    return [*OPTIONS, "target.name=small", f"target.path={target}", f"codes={codes}"]


def command(launcher, options, module=MODULE):
    return [sys.executable, *launcher, "-m", module, *options]


def finish(command):
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def kill_after_first_state(command, folder, *, together=False):
    """SIGKILL as soon as a state is on disk, some steps later; `together`: its children too."""
    start = {"start_new_session": together}
    with subprocess.Popen(
        command, env=environment(), stderr=subprocess.DEVNULL, **start
    ) as process:
        deadline = time.monotonic() + 300  # the machine may be busy
        try:
            while not list(folder.glob("training/state-*.pt")):
                assert time.monotonic() < deadline, "no state was saved"
                assert process.poll() is None, "the training ended before it could be killed"
                time.sleep(0.002)
        finally:
            os.killpg(process.pid, signal.SIGKILL) if together else process.kill()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.whole
def test_killed_training_goes_on_to_the_same_result(tmp_path, options):
    options += ["steps=120", "batch_size=4"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    finish(command([], [*options, f"out={whole}"]))
    kill_after_first_state(command([], [*options, f"out={cut}"]), cut)
    assert not (cut / "config.json").exists()
    finish(command([], [*options, f"out={cut}"]))
    same = ["model.safetensors", "config.json", "inheritance.json", "training/metrics.jsonl"]
    for name in same:
        assert (cut / name).read_bytes() == (whole / name).read_bytes(), name
    assert {p.name for p in cut.rglob("*")} == {p.name for p in whole.rglob("*")}


TWO = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.mark.slow
@pytest.mark.whole
def test_two_processes_do_what_one_does_with_twice_the_batch(tmp_path, options):
    options += ["steps=8"]
    one = finish(command([], [*options, "batch_size=6", f"out={tmp_path / 'one'}"]))
    two = finish(command(TWO, [*options, "batch_size=3", f"out={tmp_path / 'two'}"]))
    assert one.pop("draft") != two.pop("draft")
    assert two == pytest.approx(one, rel=1e-5)
    same_weights(tmp_path, "model.safetensors", atol=1e-5)


FROZEN = ["sequences=24", "batch_size=16", "gradient_checkpointing=true"]


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize(
    ("chosen", "accumulate", "written"),
    [
        ([*FROZEN, "kind=linear"], "accumulate", {"heads": 1e-3}),
        ([*FROZEN, "kind=recurrent"], "accumulate", {"recurrent": 1e-3}),
        (
            ["train_trunk=true", "joint.frames=30"],
            "joint.accumulate",
            {"heads": 1e-3, "target/model": 1e-4},  # heads are stored in half precision
        ),
    ],
)
def test_two_processes_train_heads_as_one_does(tmp_path, options, chosen, accumulate, written):
    own = [option for option in options if option.startswith(("target", "codes"))]
    own += ["n=3", "steps=6", "warmup=2", "eval_every=3", "dev_utterances=4", *chosen]
    module = "speculative_tts.commands.train_heads"
    one = [*own, f"{accumulate}=2", f"out={tmp_path / 'one'}"]
    two = [*own, f"out={tmp_path / 'two'}"]
    first, second = finish(command([], one, module)), finish(command(TWO, two, module))
    assert second["dev_loss"] == pytest.approx(first["dev_loss"], rel=1e-5)
    for name, atol in written.items():
        same_weights(tmp_path, f"{name}.safetensors", atol=atol)


@pytest.mark.slow
@pytest.mark.whole
def test_two_processes_that_were_killed_go_on_to_the_same_result(tmp_path, options):
    options += ["steps=60", "batch_size=3"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    finish(command(TWO, [*options, f"out={whole}"]))
    first = [*options, f"out={cut}", "save_every=5"]
    kill_after_first_state(command(TWO, first), cut, together=True)
    assert not (cut / "config.json").exists()
    finish(command(TWO, first))
    assert (cut / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.mark.slow
@pytest.mark.whole
def test_two_processes_train_valle_by_the_papers_recipe_as_one_does(tmp_path):
    """AR with heads, and the NAR, whose stages that are not drawn take no part."""
    write_valle(tmp_path / "start", n_codes=24, quantizers=3)
    save_codes(tmp_path / "codes", layers=3)
    own = ["recipe=valle_heads", f"target.path={tmp_path / 'start'}", f"codes={tmp_path / 'codes'}"]
    own += ["device=cpu", "dtype=float32", "n=3", "warmup=0", "joint.frames=60", "joint.epochs=1"]
    own += ["joint.nar_frames=40", "joint.nar_epochs=1", "joint.shortest=5"]
    module = "speculative_tts.commands.train_heads"
    figures = []
    for run, start, each in (("one", [], 2), ("two", TWO, 1)):
        places = [f"out={tmp_path / run}", f"target_out={tmp_path / run / 'target'}"]
        figures.append(finish(command(start, [*own, *places, f"joint.accumulate={each}"], module)))
    for key in ("steps", "nar_steps"):
        assert figures[0][key] == figures[1][key]
    for key in ("dev_loss", "nar_dev_loss"):
        assert figures[1][key] == pytest.approx(figures[0][key], rel=1e-4)
    same_weights(tmp_path, "heads.safetensors", atol=1e-3)  # stored in half precision
    same_weights(tmp_path, "target/model.safetensors", atol=1e-4)


def same_weights(folder, name, atol):
    first, second = (load_file(folder / run / name) for run in ("one", "two"))
    for key, tensor in first.items():
        there, here = second[key], tensor
        if key.endswith("in_proj_bias"):  # of keys: softmax does not see it, its gradient is noise
            there, here = (torch.cat([one.chunk(3)[i] for i in (0, 2)]) for one in (there, here))
        apart = atol if here.is_floating_point() else 1  # a sum's order may move a rounding
        given = {"rtol": 0, "atol": apart, "msg": f"{name}: {key}"}
        torch.testing.assert_close(there.float(), here.float(), **given)


def test_a_tracker_that_is_not_installed_is_named(tmp_path, options, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    capsys.readouterr()
    assert train_draft.main([*options, f"out={tmp_path / 'out'}", "wandb=true"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "wandb halted; None in sys.modules; pip install 'speculative_tts[cluster]'" in line
