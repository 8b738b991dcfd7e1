"""What a training says of its duration, from its first steps."""

import logging
from pathlib import Path

import pytest

from speculative_tts.commands.train_heads import main
from speculative_tts.schema.common import Device
from speculative_tts.training import pace
from speculative_tts.training.devices import accelerator_for, described
from speculative_tts.training.pace import MEASURED, Pace, duration


def test_the_first_step_warms_up_and_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps take 100, 2, 2 and 2 seconds and learn 50 tokens each; an evaluation takes 7."""
    now = [0.0]
    monkeypatch.setattr(pace.time, "perf_counter", lambda: now[0])
    timed = Pace("tokens")
    with timed.evaluating():
        now[0] += 7
    for seconds in (100, *[2] * MEASURED):
        assert not timed.known
        with timed.step():
            timed.add(50)
            now[0] += seconds
    assert timed.known
    assert timed.estimate(1800, 10) == (
        "about 61 minutes for 1800 more steps at 25 tokens/s (3 steps were timed)"
    )
    with timed.step():
        now[0] += 1
    assert not timed.known  # it is said once


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "1 s"), (99, "99 s"), (240, "4 minutes"), (9000, "2.5 hours")]
)
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_a_training_says_it_once(
    arguments: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="speculative_tts"):
        assert main([*arguments, f"out={tmp_path}/heads"]) == 0
    (line,) = (text for text in caplog.messages if "more steps" in text)
    assert line.startswith(f"{tmp_path}/heads: about ")
    assert "for 2 more steps at " in line
    where = described(accelerator_for(Device.cpu))
    assert line.endswith(f" positions/s (3 steps were timed) on {where}")
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="speculative_tts"):  # none is left to be estimated
        assert main([*arguments, "steps=4", f"out={tmp_path}/few"]) == 0
    assert not [text for text in caplog.messages if "more steps" in text]
