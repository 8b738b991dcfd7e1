"""The search for a setting of a given speed, on curves whose answer is known."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from speculative_tts.commands.decode import main
from speculative_tts.provenance import plain
from speculative_tts.records import Counts, DecodeRecord, to_row, write_jsonl
from speculative_tts.runs.folder import DONE
from speculative_tts.runs.naming import run_name
from speculative_tts.runs.tune import (
    TRIALS,
    acceptance_length,
    matched,
    measured,
    nearest,
    search,
)
from speculative_tts.schema.decode import DecodeConfig
from speculative_tts.schema.rules import GroupRule, ToleranceRule
from speculative_tts.typed import write_json

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
    "curve", [lambda x: 2 + 0.2 * math.log(x), lambda x: 2 + x / 140, lambda x: 3 - 1 / x]
)
def test_it_comes_near_with_few_trials(curve: Callable[[float], float], wanted: float) -> None:
    measure, asked = counted(curve)
    goal = curve(wanted)
    tried = search(measure, goal, ENDS, {}, 16.0, LOGARITHM)
    assert len(asked) <= TRIALS
    assert tried[nearest(tried, goal)] == pytest.approx(goal, rel=0.03)


def test_known_settings_cost_nothing_and_bracket() -> None:
    measure, asked = counted(lambda x: 2 + 0.2 * math.log(x))
    known = {x: 2 + 0.2 * math.log(x) for x in (1.0, 4.5, 10.0, 40.0, 140.0)}
    goal = 2 + 0.2 * math.log(20)
    tried = search(measure, goal, ENDS, known, 16.0, LOGARITHM)
    assert asked == [20.0]
    assert nearest(tried, goal) == 20.0
    measure, asked = counted(lambda x: 2 + 0.2 * math.log(x))
    search(measure, known[10.0], ENDS, known, 16.0, LOGARITHM)
    assert asked == []


def test_beyond_what_is_known_it_goes_on_from_there() -> None:
    """Groups of all codes, the end, take minutes."""
    measure, asked = counted(lambda x: 2 + 0.2 * math.log(x))
    known = {x: 2 + 0.2 * math.log(x) for x in (40.0, 140.0)}
    tried = search(measure, 2 + 0.2 * math.log(200), (1.0, 8192.0), known, 16.0, LOGARITHM)
    assert asked == [200]
    assert nearest(tried, 2 + 0.2 * math.log(200)) == 200


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        ({40.0: 2.0}, 160),  # one says nothing of what is beyond
        ({40.0: 2.0, 80.0: 2.0}, 320),  # two that are equal neither
        ({40.0: 2.0, 80.0: 2.001}, 320),  # a line that leads to thousands is not believed
        ({40.0: 2.0, 80.0: 2.95}, 100),  # a hair beyond the largest would hardly bracket
        ({10.0: 0.0, 40.0: 2.0, 80.0: 2.5}, 160),  # 0.5 more for twice the size, by the last two
        ({40.0: 2.0, 80.0: 2.7}, 108),  # 80 * 2^(3/7) is 107.67
    ],
)
def test_the_first_step_beyond_is_neither_short_nor_long(
    known: dict[float, float], asked: float
) -> None:
    measure, settings = counted(lambda x: 3.0)
    search(measure, 3.0, (1.0, 8192.0), known, 16.0, LOGARITHM)
    assert settings == [asked]


def test_beside_no_tolerance_the_first_is_tried() -> None:
    """Four times nothing is nothing: known was β = 0 alone, and the search ended."""
    measure, asked = counted(lambda x: 1 + x)
    search(measure, 2.0, (0.0, 1.0), {0.0: 1.0}, 1.0)
    assert asked == [1.0]


def test_out_of_reach_gives_the_end() -> None:
    measure, asked = counted(lambda x: 2 + x / 1000)
    tried = search(measure, 5.0, ENDS, {}, 16.0, LOGARITHM)
    assert nearest(tried, 5.0) == 140
    assert asked == [16, 64, 140]
    tried = search(measure, 1.0, ENDS, {}, 16.0, LOGARITHM)
    assert nearest(tried, 1.0) == 1


class Runs:
    """Makes runs whose rounds emit by formulas: 1.8 + 1.6 beta, and 1.5 + 0.2 ln(mean size)."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __call__(self, config: DecodeConfig) -> int:
        """A run of one utterance of 1,000 rounds."""
        rule, folder = config.rule, Path(config.out) / run_name(config)
        length = 0.0
        if isinstance(rule, GroupRule):
            length = 1.5 + 0.2 * math.log(rule.groups.size)
        if isinstance(rule, ToleranceRule):
            length = 1.8 + 1.6 * rule.beta
        emitted = round(1000 * length)
        record = DecodeRecord(
            *("x",) * 5,
            reference_audio=None,
            seed=config.seed,
            audio="x",
            codes=[],
            tokens=emitted + 1,
            stop="stop_id",
            audio_seconds=1.0,
            lm_seconds=1.0,
            counts=Counts(1000, [1000], [emitted - 1000], residuals=1000),
            baseline_tokens=2000,
            baseline_seconds=1.0,
        )
        write_json(folder / "config.json", plain(config))
        write_jsonl(folder / "records.jsonl", [to_row(record)])
        (folder / DONE).touch()
        self.made.append(folder.name)
        return 0


def configured(out: Path, *overrides: str) -> DecodeConfig:
    return main.compose([*overrides, f"out={out}"])


@pytest.mark.parametrize(
    ("rule", "match", "setting"),
    [
        ("group", "0.3", math.exp((1.8 + 0.48 - 1.5) / 0.2)),
        ("group", "size:10.3", 10.3),
        ("tolerance", "size:10.3", (1.5 + 0.2 * math.log(10.3) - 1.8) / 1.6),
        ("group", "length:2.9", math.exp(1.4 / 0.2)),  # 1,097 of 2,048 codes
        ("group", "speedup:1.2", math.exp(0.9 / 0.2)),
        ("tolerance", "length:3.2", 0.875),
        ("tolerance", "speedup:1.4", 0.625),
    ],
)
def test_a_speed_is_met_by_either_rule(
    tmp_path: Path, rule: str, match: str, setting: float
) -> None:
    runs = Runs()
    config = matched(configured(tmp_path, f"rule={rule}", f"match={match}", "seed=5"), runs)
    found = config.rule.groups.mean_size if rule == "group" else config.rule.beta
    assert found == pytest.approx(setting, rel=0.15)  # of the size; 1 % of the speed
    assert (config.match, config.seed) == (None, 5)
    assert all(name.endswith(f"s0-{name[-8:]}") for name in runs.made)
    again = Runs()
    assert matched(configured(tmp_path, f"rule={rule}", f"match={match}", "seed=6"), again)
    assert not again.made


def test_runs_of_an_earlier_sweep_are_known_whatever_their_settings(tmp_path: Path) -> None:
    runs = Runs()
    for size in (77, 78):
        runs(configured(tmp_path, "rule=group", f"rule.groups.mean_size={size}"))
    runs(configured(tmp_path, "rule=group", "rule.groups.mean_size=3", "lookahead=2"))
    for given in ("rule.groups.theta=0.9", "rule.groups.mean_size=null"):  # one was a TypeError
        runs(configured(tmp_path, "rule=group", given))
    write_json(tmp_path / "older" / "config.json", {"rule": {"name": "exact"}})
    write_json(tmp_path / "target" / "config.json", {})
    length = 1.5 + 0.2 * math.log(77)
    config = matched(configured(tmp_path, "rule=group", f"match=length:{length}"), runs)
    assert config.rule.groups.mean_size == 77
    assert len(runs.made) == 5


@pytest.mark.parametrize(("match", "again"), [("0.3", 0), ("size:10.3", 0), ("speedup:1.2", 1)])
def test_runs_that_time_other_utterances_are_found(tmp_path: Path, match: str, again: int) -> None:
    """Seeds that are not timed took groups of another size than the timed seed of their table."""
    timed, untimed = Runs(), Runs()
    given = ("rule=group", "system=speculative", f"match={match}")
    first = matched(configured(tmp_path, *given), timed)
    second = matched(configured(tmp_path, *given, f"timing={40 * again}", "seed=1"), untimed)
    assert second.rule == first.rule
    assert timed.made
    assert bool(untimed.made) == bool(again)


def test_ssds_own_beta_needs_no_search(tmp_path: Path) -> None:
    runs = Runs()
    assert matched(configured(tmp_path, "rule=tolerance", "match=0.25"), runs).rule.beta == 0.25
    assert len(runs.made) == 1


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["match=0.3"], "match=0.3 searches a rule's setting; give system=speculative"),
        (["rule=typical", "match=length:2"], "give system=speculative and rule=group or rule=tol"),
        (["rule=group", "match=fast"], "match=fast is no speed; give SSD's beta"),
        (["rule=group", "match=pace:3"], "match=pace:3 is no speed"),
        (["rule=tolerance", "match=1.5"], "match=1.5 is no beta of SSD, which is 0 to 1"),
        (["rule=group", "match=size:0.5"], "match=size:0.5 is below 1, a group of one"),
        (["rule=group", "match=length:4.5"], r"outside \[1, 4\], the tokens that a round of"),
        (["rule=group", "match=speedup:1.4", "baseline=false"], "give a speedup above 0, base"),
        (["rule=group", "match=speedup:0"], "above 0, baseline=true and timing above 0"),
        (["rule=group", "match=speedup:0.5", "timing=0"], "above 0, baseline=true and timing"),
        (["rule=group", "match=null"], "is no speed"),
        (["rule=group", "match=0.3", "rule.groups.path=x"], "names a cache of one size"),
    ],
)
def test_mistakes_are_said(tmp_path: Path, overrides: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        matched(configured(tmp_path, *overrides), Runs())


def test_a_run_that_failed_is_told(tmp_path: Path) -> None:
    """It was told that texts are too short."""
    config = main.compose([f"out={tmp_path}"])
    with pytest.raises(ValueError, match="has utterances that failed"):
        measured(config, lambda _: 1, acceptance_length)
    with pytest.raises(ValueError, match="no round was decoded"):
        measured(config, lambda _: 0, acceptance_length)
