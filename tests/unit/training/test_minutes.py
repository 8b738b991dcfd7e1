"""Trainings that are fitted to a budget of minutes: their steps, which are fixed once."""

import dataclasses
import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from test_loop import PLAN, Toy, stop_after

from speculative_tts.commands.train_draft import main as train_draft
from speculative_tts.commands.train_heads import main as train_heads
from speculative_tts.models.recurrent import read_layer
from speculative_tts.schema.common import Device
from speculative_tts.training import devices
from speculative_tts.training.devices import accelerator_for, described
from speculative_tts.training.loop import Training
from speculative_tts.typed import read_json

LONG = dataclasses.replace(PLAN, steps=1000, least=8)
STEP, EVALUATION = 2.0, 7.0  # seconds of the toy's


class Clock:
    """A clock that is moved by hand; with `ticks` each look at it takes so many seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ticks: float = 0.0) -> None:
        self.now, self._ticks = 0.0, ticks
        monkeypatch.setattr(time, "perf_counter", self.look)

    def look(self) -> float:
        self.now += self._ticks
        return self.now


class Timed(Toy):
    """The toy on a machine that is `slower` times as slow."""

    def __init__(self, folder: Path, clock: Clock, slower: float = 1.0) -> None:
        super().__init__(folder, LONG)
        self._clock, self._slower = clock, slower

    def run_step(self) -> dict[str, Any]:
        self._clock.now += self._slower * STEP
        return super().run_step()

    def evaluate(self) -> dict[str, float]:
        self._clock.now += self._slower * EVALUATION
        return super().evaluate()


def test_the_steps_fill_the_minutes_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An evaluation and four steps are tried: 15 s. The rest is for 62 of 2 s and 22 of 7 s."""
    clock = Clock(monkeypatch)
    training = Timed(tmp_path / "toy" / "training", clock)
    with caplog.at_level(logging.INFO, logger="speculative_tts"):
        assert training.start({"rate": 1}, minutes=5) == {"rate": 1, "steps": 62}
    (line,) = caplog.messages
    assert line == (
        f"{tmp_path}/toy: 62 steps fit into 5 minutes, 15 s of them gone, at 2 s a step on "
        f"{described(accelerator_for(Device.cpu))}"
    )
    training.run()
    assert (training.step, clock.now) == (62, 15 + 62 * STEP + 22 * EVALUATION)
    assert clock.now <= 300


@pytest.mark.parametrize("rows", [0, 3, 8, 11])
def test_a_killed_training_keeps_its_steps_and_ends_as_one_of_so_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Whatever was tried leaves no trace, and a slower machine that goes on changes nothing."""
    clock = Clock(monkeypatch)
    killed = Timed(tmp_path / "killed", clock)
    steps = killed.start({}, minutes=2)["steps"]
    with pytest.raises(KeyboardInterrupt):
        killed.run(stop_after(rows))
    resumed = Timed(tmp_path / "killed", clock, slower=5)
    assert resumed.start({}, minutes=2)["steps"] == steps
    resumed.run()
    plain = Toy(tmp_path / "plain", dataclasses.replace(PLAN, steps=steps))
    plain.run()
    assert resumed.step == plain.step == steps < LONG.steps
    assert all(torch.equal(p, plain.parameters[n]) for n, p in resumed.parameters.items())
    logs = [(tmp_path / name / "metrics.jsonl").read_text() for name in ("plain", "killed")]
    assert logs[0] == logs[1]
    other = Timed(tmp_path / "other", clock, slower=1.2)  # the clock does decide
    assert other.start({}, minutes=2)["steps"] < steps


def test_minutes_that_hold_too_few_steps_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is said to be enough is; nothing is left behind."""
    clock = Clock(monkeypatch)
    said = (
        r"minutes=0.6 hold 1 steps of 2 s after 15 s of preparation, fewer than 8; give minutes=2"
    )
    with pytest.raises(ValueError, match=said) as error:
        Timed(tmp_path / "toy", clock).start({}, minutes=0.6)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "toy").exists()
    assert Timed(tmp_path / "toy", clock).start({}, minutes=2)["steps"] >= LONG.least
    short = Timed(tmp_path / "short", clock)
    short.plan = dataclasses.replace(LONG, steps=2)  # nobody asked for more
    assert short.start({}, minutes=2)["steps"] == 2


@pytest.mark.parametrize("native", [True, False])
def test_the_line_says_why_it_is_float32(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "has_bfloat16", lambda: native)
    why = "" if native else ": this CPU has no native bfloat16"
    assert described(accelerator_for(Device.cpu)) == f"1 x cpu, float32{why}"


@pytest.fixture
def given(target: Path, codes: Path) -> list[str]:
    numbers = "steps=500 warmup=2 eval_every=3 save_every=2 dev_utterances=4"
    return [f"target.path={target}", f"codes={codes}", *numbers.split()]


HEADS = ["kind=recurrent", "n=3", "batch_size=32", "sequences=100", "losses.kl=1", "losses.ce=0"]


def test_a_recurrent_layer_in_minutes_is_the_one_of_its_steps_and_sequences(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed on the way; states of sequences are computed in a quarter of the time."""
    step = Training.run_step

    def dies(self: Training) -> dict[str, object]:
        if self.folder.joinpath("fitted.json").exists() and self.step == 5:
            raise KeyboardInterrupt
        return step(self)

    out, minutes = tmp_path / "minutes", ["minutes=1", f"out={tmp_path / 'minutes'}"]
    with monkeypatch.context() as patch:
        Clock(patch, ticks=1)
        patch.setattr(Training, "run_step", dies)
        assert train_heads([*given, *HEADS, *minutes]) == 130
    fitted = read_json(out / "training/fitted.json")
    assert 8 <= fitted["steps"] < 60
    assert fitted["sequences"] == 15 * 4  # a second was the time of four
    assert train_heads([*given, *HEADS, *minutes]) == 0
    plain = [f"{name}={number}" for name, number in fitted.items()]
    assert train_heads([*given, *HEADS, *plain, f"out={tmp_path / 'plain'}"]) == 0
    (one, about), (other, _) = (read_layer(folder) for folder in (out, tmp_path / "plain"))
    pairs = zip(one.blocks, other.blocks, strict=True)
    assert all(torch.equal(*both) for pair in pairs for both in zip(*pair, strict=True))
    assert fitted.items() <= about["about"]["settings"].items()
    assert read_json(out / "training/summary.json").items() >= fitted.items()


def test_minutes_are_of_drafts_too_and_not_changed_on_the_way(
    given: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = [*given, "layers=[0,3]", "batch_size=4", f"out={tmp_path / 'draft'}"]
    with monkeypatch.context() as patch:
        Clock(patch, ticks=1)
        assert train_draft([*own, "minutes=1"]) == 0
    steps = json.loads(capsys.readouterr().out.splitlines()[-1])["steps"]
    assert 8 <= steps < 60
    assert train_draft([*own, "minutes=2"]) == 2
    assert "was made with minutes=1.0, now 2.0; use the same" in capsys.readouterr().err
