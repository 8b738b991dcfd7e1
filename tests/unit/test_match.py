"""The search for a setting of a given speed, on curves whose answer is known."""

import math
from collections.abc import Callable

import pytest

from speculative_tts.commands.match import TRIALS, nearest, search

LOGARITHM = (math.log, math.exp)
ENDS = (1.0, 140.0)


def counted(curve: Callable[[float], float]) -> tuple[Callable[[float], float], list[float]]:
    asked: list[float] = []

    def measure(setting: float) -> float:
        asked.append(setting)
        return curve(setting)

    return measure, asked


@pytest.mark.parametrize("wanted", [1.5, 7.0, 33.0, 120.0])
@pytest.mark.parametrize(
    "curve",
    [lambda x: 2 + 0.2 * math.log(x), lambda x: 2 + x / 140, lambda x: 3 - 1 / x],
)
def test_it_comes_near_with_few_trials(curve: Callable[[float], float], wanted: float) -> None:
    measure, asked = counted(curve)
    goal = curve(wanted)
    tried = search(measure, goal, ENDS, {}, LOGARITHM)
    assert len(asked) <= TRIALS
    assert tried[nearest(tried, goal)] == pytest.approx(goal, rel=0.03)


def test_known_settings_cost_nothing_and_bracket() -> None:
    measure, asked = counted(lambda x: 2 + 0.2 * math.log(x))
    known = {x: 2 + 0.2 * math.log(x) for x in (1.0, 4.5, 10.0, 40.0, 140.0)}
    goal = 2 + 0.2 * math.log(20)
    tried = search(measure, goal, ENDS, known, LOGARITHM)
    assert asked == [20.0]
    assert nearest(tried, goal) == 20.0
    measure, asked = counted(lambda x: 2 + 0.2 * math.log(x))
    search(measure, known[10.0], ENDS, known, LOGARITHM)
    assert asked == []


def test_out_of_reach_gives_the_end() -> None:
    measure, asked = counted(lambda x: 2 + x / 1000)
    tried = search(measure, 5.0, ENDS, {}, LOGARITHM)
    assert nearest(tried, 5.0) == 140
    assert asked == [140]
    tried = search(measure, 1.0, ENDS, {}, LOGARITHM)
    assert nearest(tried, 1.0) == 1
