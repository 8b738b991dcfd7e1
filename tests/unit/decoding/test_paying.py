"""Speculation that is left out where it does not pay."""

import time
from collections.abc import Callable

import pytest
from decoders import STOPS, build, requests, state
from static_loops import SAMPLERS, speculation

from speculative_tts.decoding.loops import paying
from speculative_tts.decoding.loops.graphs import Graphs
from speculative_tts.decoding.loops.one_by_one import alone
from speculative_tts.decoding.loops.paying import Paying, speed
from speculative_tts.decoding.loops.speculation import Rounds

SPECULATIVE = speculation("exact", "all", "lm").looping()
ALONE = alone(build(state(3)), STOPS, SAMPLERS["all"])


@pytest.mark.parametrize("faster", [SPECULATIVE, ALONE], ids=["speculation", "target"])
def test_the_faster_one_is_taken(faster: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured once a size of batch."""
    tried: list[tuple[object, int]] = []

    def measured(graphs: Graphs, spec: object, asked: list[object]) -> float:
        tried.append((spec, len(asked)))
        return 2.0 if spec is faster else 1.0

    monkeypatch.setattr(paying, "speed", measured)
    chooser = Paying(Graphs())
    for rows in (1, 3, 1, 3):
        assert chooser.choose(SPECULATIVE, ALONE, requests(rows)) is faster
    assert tried == [(SPECULATIVE, 1), (ALONE, 1), (SPECULATIVE, 3), (ALONE, 3)]


def test_speed_is_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds that take a hundredth of a second longer are slower, whatever the prefill took."""
    slow_load, real_load = 0.5, Rounds.load
    real_step: Callable[[Rounds], None] = Rounds.step
    graphs = Graphs(lambda step: step)
    plain = speed(graphs, SPECULATIVE, requests(2))

    def load(self: Rounds, asked: list[object]) -> None:
        time.sleep(slow_load)
        real_load(self, asked)  # type: ignore[arg-type]

    def step(self: Rounds) -> None:
        time.sleep(0.01)
        real_step(self)

    monkeypatch.setattr(Rounds, "load", load)
    assert speed(Graphs(), SPECULATIVE, requests(2)) > plain / 10
    monkeypatch.setattr(Rounds, "step", step)
    assert speed(Graphs(), SPECULATIVE, requests(2)) < 2 * 4 / 0.01
