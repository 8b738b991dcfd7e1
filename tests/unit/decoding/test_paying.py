"""Speculation that is left out where it does not pay."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest
from decoders import STOPS, build, requests, state
from static_loops import SAMPLERS, speculation

from speculative_tts.decoding.batch import Request
from speculative_tts.decoding.loops import paying
from speculative_tts.decoding.loops.graphs import EAGER, Graphs, Step
from speculative_tts.decoding.loops.one_by_one import Autoregression, alone
from speculative_tts.decoding.loops.paying import TRIED, WARM, Paying, speed
from speculative_tts.decoding.loops.speculation import Rounds

SPECULATIVE = speculation("exact", "all", "lm").looping()
ALONE = alone(build(state(3)), STOPS, SAMPLERS["all"])
STEP, PREFILL = 1.0, 1000.0  # seconds of a clock that only loops move
ROUND = {1: 1.1, 4: 9.0}  # of a round by rows: at four it costs more than it can bring


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Time passes in steps, rounds and prefills of real loops, and nowhere else."""
    now = [0.0]

    def takes(loop: type, name: str, seconds: Callable[[int], float]) -> None:
        real = getattr(loop, name)

        def timed(self: Rounds | Autoregression, *given: object) -> None:
            real(self, *given)
            now[0] += seconds(len(self.rows.count))

        monkeypatch.setattr(loop, name, timed)

    takes(Rounds, "step", lambda rows: ROUND[rows])
    takes(Autoregression, "step", lambda _: STEP)
    for loop in (Rounds, Autoregression):
        takes(loop, "load", lambda _: PREFILL)
    monkeypatch.setattr(paying, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    yield now
    assert now[0] > PREFILL


def asked(rows: int) -> list[Request]:
    """Requests that do not end while they are timed."""
    return [replace(one, min_tokens=100) for one in requests(rows, maximum=120)]


def test_speed_is_of_steps_whatever_the_prefill_took() -> None:
    """Tokens of all rows; one a row and step of the target alone."""
    graphs = Graphs(lambda step: step)
    assert speed(graphs, ALONE, asked(1)) <= 1 / STEP
    assert speed(graphs, SPECULATIVE, asked(1)) > 1.2 / ROUND[1]


def test_speculation_is_never_slower_than_the_target_alone() -> None:
    """Tokens a second of both decide at each size of batch; rounds of four rows cost too much."""
    graphs = Graphs(lambda step: step)
    chooser, faster = Paying(graphs), {1: SPECULATIVE, 4: ALONE}
    for rows in (1, 4, 1, 4):
        chosen = chooser.choose(SPECULATIVE, ALONE, asked(rows))
        assert chosen is faster[rows]
        both = [speed(graphs, spec, asked(rows)) for spec in (SPECULATIVE, ALONE)]
        assert speed(graphs, chosen, asked(rows)) == pytest.approx(max(both))
        assert max(both) > 1.1 * min(both)


def test_both_are_tried_once_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[object, int]] = []
    real = paying.speed

    def noted(graphs: Graphs, spec: object, given: list[Request]) -> float:
        tried.append((spec, len(given)))
        return real(graphs, spec, given)  # type: ignore[arg-type]

    monkeypatch.setattr(paying, "speed", noted)
    chooser = Paying(Graphs(lambda step: step))
    for rows in (1, 4, 1, 4):
        chooser.choose(SPECULATIVE, ALONE, asked(rows))
    assert tried == [(SPECULATIVE, 1), (ALONE, 1), (SPECULATIVE, 4), (ALONE, 4)]


def test_a_trial_ends_with_what_it_times(clock: list[float]) -> None:
    """It had decoded its batch to the end, so that the first batch of a size took three times as
    long. The loop that was tried, and its graph, are the ones that decode afterwards.
    """
    captured: list[Step] = []

    def capture(step: Step) -> Step:
        captured.append(step)
        return step

    graphs = Graphs(capture)
    speed(graphs, SPECULATIVE, asked(4))
    assert clock[0] == pytest.approx(PREFILL + (WARM + TRIED) * ROUND[4])
    (tried,) = graphs.kept.values()
    assert graphs.decode(SPECULATIVE, asked(4)) == EAGER.decode(SPECULATIVE, asked(4))
    assert len(captured) == 1
    assert graphs.kept[next(iter(graphs.kept))] is tried
