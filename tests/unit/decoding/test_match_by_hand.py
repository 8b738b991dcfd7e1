"""The search for a speed, its parts by hand: what is asked, tried, told, and the figures."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_match import Runs, configured
from test_sources import a_record

from speculative_tts.records import Counts, ListItem
from speculative_tts.runs import tune as match
from speculative_tts.runs.folder import DONE
from speculative_tts.runs.naming import run_name
from speculative_tts.runs.tune import acceptance_length, matched, other, parsed, speedup
from speculative_tts.schema.common import GroupsConfig
from speculative_tts.schema.rules import GroupRule, ToleranceRule

TIMED = "speedup:0.5"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0", ("beta", 0.0)),
        ("length:1", ("length", 1.0)),
        ("length:4", ("length", 4.0)),
        ("size:1", ("size", 1.0)),
        (TIMED, ("speedup", 0.5)),
    ],
)
def test_speeds_at_their_limits(tmp_path: Path, text: str, found: tuple[str, float]) -> None:
    assert parsed(configured(tmp_path, "rule=group", f"match={text}", "timing=1")) == found
    if text != TIMED:
        without = configured(tmp_path, "rule=tolerance", f"match={text}", "timing=0")
        assert parsed(without) == found


@pytest.mark.parametrize("rule", ["group", "tolerance"])
@pytest.mark.parametrize(("away", "far"), [(1.0298, False), (0.96995, True)])
def test_where_it_landed_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    rule: str,
    away: float,
    far: bool,
) -> None:
    asked: list[Any] = []

    def search(
        _: Any, goal: float, ends: Any, __: Any, first: float, scale: Any
    ) -> dict[float, float]:
        asked.append((goal, ends, first, scale))
        return {0.5: goal * away, 0.75: goal * 3}

    monkeypatch.setattr(match, "search", search)
    matched(configured(tmp_path, f"rule={rule}", "match=length:2"), Runs())
    by_size = rule == "group"
    ends = (1.0, 2048.0) if by_size else (0.0, 1.0)
    first = 16.0 if by_size else 1.0
    assert asked == [(2.0, ends, first, (math.log, math.exp) if by_size else (float, float))]
    name = "groups.mean_size" if by_size else "beta"
    end = "; no setting that was tried comes nearer" if far else ""
    told = f"match: rule.{name}=0.5 has acceptance length {2 * away:.3f}, wanted 2.000"
    assert capsys.readouterr().out == f"{told} ({100 * (away - 1):+.1f} %){end}\n"


def test_the_other_rule_is_the_papers(tmp_path: Path) -> None:
    groups = GroupsConfig(theta=0.5, cap=4, cache="here")
    config = replace(configured(tmp_path, "rule=group"), rule=GroupRule(groups=groups))
    assert other(config, "beta", 0.3) == ToleranceRule(beta=0.3)
    assert other(config, "size", 7.0) == GroupRule(groups=GroupsConfig(mean_size=7.0, cache="here"))
    plain = configured(tmp_path, "rule=tolerance")
    assert other(plain, "size", 7.0) == GroupRule(groups=GroupsConfig(mean_size=7.0))
    sized = match.with_setting(config, 3.0).rule
    assert sized == GroupRule(groups=replace(groups, theta=None, mean_size=3.0))


@pytest.mark.parametrize(
    ("curve", "known", "goal", "asked"),
    [
        # false position first, then halves: 0.582 is 0.36 + 0.32 (0.36 - 0.1296) / 0.3328
        (lambda x: x * x, {0.0: 0.0, 1.0: 1.0}, 0.36, [0.36, 0.68, 0.582, 0.631, 0.6]),
        # at least a tenth from either end
        (lambda x: 10 * x, {0.0: 0.0, 1.0: 10.0}, 9.5, [0.9, 0.95]),
        (lambda x: 10 * x, {0.0: 0.0, 1.0: 10.0}, 0.5, [0.1, 0.05]),
        # what is above the goal counts above all that is below it: a quarter of the way to 4
        (lambda _: 2.0, {1.0: 3.0, 2.0: 1.0, 4.0: 5.0}, 2.0, [2.5]),
    ],
)
def test_settings_between_known_ones(
    curve: Callable[[float], float], known: dict[float, float], goal: float, asked: list[float]
) -> None:
    tried = match.search(curve, goal, (0.0, 9.0), known, 1.0)
    assert list(tried) == [*known, *asked]


@pytest.mark.parametrize(
    ("cap", "pairs", "size"),
    [("null", 900, 9.0), ("50", 900, 9.0), ("4", 900, 4.0), ("null", 22, 2.0)],
)
def test_of_ten_codes_one_ends_and_is_in_no_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cap: str, pairs: int, size: float
) -> None:
    layout = SimpleNamespace(n_codes=10, stop_ids=(3, 10))
    monkeypatch.setattr("speculative_tts.models.families.registry.load_layout", lambda _: layout)
    monkeypatch.setattr("speculative_tts.caches.groups.MOST_PAIRS", pairs)
    config = configured(tmp_path, "rule=group", f"rule.groups.cap={cap}")
    assert match.largest_size(config) == size


def test_a_run_that_was_not_finished_has_no_figure(tmp_path: Path) -> None:
    config = configured(tmp_path, "rule=tolerance", "rule.beta=0.5")
    Runs()(config)
    assert match.finished(config, acceptance_length) == 2.6
    (tmp_path / run_name(config) / DONE).unlink()
    assert match.finished(config, acceptance_length) is None
    (tmp_path / run_name(config) / "config.json").write_text("{")
    with pytest.raises(ValueError, match="delete that run"):
        match.known(config, acceptance_length)


def test_figures_of_records() -> None:
    item = ListItem("u", "one", "a.wav", "yes")
    counts = Counts(rounds=4, accepted_per_position=[3, 2], residuals=2, bonuses=1)
    times = {"tokens": 30, "lm_seconds": 2.0, "baseline_tokens": 20, "baseline_seconds": 4.0}
    timed = a_record(item, [], counts=counts, **times)
    untimed = replace(timed, lm_seconds=None, tokens=999)
    alone = replace(timed, baseline_tokens=None, baseline_seconds=None)
    assert acceptance_length([timed, timed]) == 2.0
    assert acceptance_length([replace(timed, counts=Counts())]) is None
    assert speedup([timed, untimed]) == (30 / 2) / (20 / 4)
    assert speedup([timed, alone]) == (60 / 4) / (20 / 4)
    assert speedup([untimed]) is None
