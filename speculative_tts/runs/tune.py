"""The setting of a rule that reaches a wanted speed: `match=` of sst-decode (PCG's tables 1 and 3).

The speed is SSD's with a given beta (match=0.3), that of groups by embeddings with a given mean
size (match=size:10.3), an acceptance length (match=length:3.2) or a speedup over the target alone
by the clock (match=speedup:1.4). Rules are compared by acceptance length, which has no timing
noise; at one lookahead they draft and verify alike, so it orders them by speed but for their own
cost (the group rule's accept step takes about 3 % of a round more). The search runs at seed 0;
finished runs that differ in the setting alone are looked up before any is made.
"""

import dataclasses
import math
from collections.abc import Callable, Collection
from pathlib import Path

from speculative_tts.records import DecodeRecord
from speculative_tts.runs.folder import is_done, read_records, settings_beside
from speculative_tts.runs.naming import run_name
from speculative_tts.schema.common import GroupsConfig
from speculative_tts.schema.decode import DecodeConfig, System
from speculative_tts.schema.rules import GroupRule, RuleConfig, ToleranceRule

Run = Callable[[DecodeConfig], int]
Scale = tuple[Callable[[float], float], Callable[[float], float]]
Figure = Callable[[Collection[DecodeRecord]], float | None]

SEED = 0
ACCURACY = 0.01  # of the speed, relatively
TRIALS = 6  # runs that the search makes at most
FIRST = 16.0  # mean size that is tried where none is known
BEYOND = 1.25, 4.0  # times the largest setting known, and no more: large groups take minutes


def matched(config: DecodeConfig, run: Run) -> DecodeConfig:
    """Return `config` with the setting of its rule whose speed is nearest to the wanted one.

    `run` makes the runs of the search. Says where it landed; where the end of the range does not
    reach, that end is taken. Raises ValueError for systems and rules without a setting to search,
    and for speeds that no setting has.
    """
    kind, wanted = parsed(config)
    by_size = isinstance(config.rule, GroupRule)
    name, figure = SPEEDS[kind]
    plain = dataclasses.replace(config, match=None)
    trial = dataclasses.replace(plain, seed=SEED)
    goal, whose = wanted, ""
    if kind in ("beta", "size"):
        goal = measured(dataclasses.replace(trial, rule=other(config, kind, wanted)), run, figure)
        whose = f" of {OTHERS[kind]} {wanted:g}"
    tried = search(
        lambda setting: measured(with_setting(trial, setting), run, figure),
        goal,
        (1.0, largest_size(config)) if by_size else (0.0, 1.0),
        known(trial, figure),
        first=FIRST if by_size else 1.0,
        scale=(math.log, math.exp) if by_size else (float, float),
    )
    best = nearest(tried, goal)
    away = 100 * (tried[best] / goal - 1)
    verdict = "" if abs(away) <= 300 * ACCURACY else "; no setting that was tried comes nearer"
    print(
        f"match: rule.{'groups.mean_size' if by_size else 'beta'}={best:g} has "
        f"{name} {tried[best]:.3f}, wanted {goal:.3f}{whose} ({away:+.1f} %){verdict}"
    )
    return with_setting(plain, best)


def other(config: DecodeConfig, kind: str, wanted: float) -> RuleConfig:
    """Return the rule whose speed is wanted: SSD's with a beta, or groups of a mean size."""
    if kind == "beta":
        return ToleranceRule(beta=wanted)
    given = config.rule.groups if isinstance(config.rule, GroupRule) else GroupsConfig()
    return GroupRule(groups=GroupsConfig(mean_size=wanted, cache=given.cache))


def parsed(config: DecodeConfig) -> tuple[str, float]:
    """Return the goal that `config.match` names: beta, size, length or speedup, and its value.

    Raises ValueError for a goal that is none, or that these settings cannot search.
    """
    text = config.match or ""
    _check_searched(config, text)
    kind, _, number = text.rpartition(":")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    kind = kind or "beta"
    if kind not in SPEEDS or not math.isfinite(value):
        raise ValueError(
            f"match={text} is no speed; give SSD's beta (match=0.3), a mean size of groups "
            "(match=size:10.3), an acceptance length (match=length:3.2) or a speedup "
            "(match=speedup:1.4)"
        )
    if kind == "beta" and not 0 <= value <= 1:
        raise ValueError(f"match={text} is no beta of SSD, which is 0 to 1; give one of these")
    if kind == "length" and not 1 <= value <= int(config.lookahead) + 1:
        raise ValueError(
            f"match={text} is outside [1, {int(config.lookahead) + 1}], the tokens that a round of "
            f"lookahead {int(config.lookahead)} emits; give another length or lookahead"
        )
    if kind == "size" and value < 1:
        raise ValueError(f"match={text} is below 1, a group of one token; give a mean size above")
    if kind == "speedup" and not (value > 0 and config.baseline and config.timing != 0):
        raise ValueError(
            f"match={text} compares with the target alone in the same process; give a speedup "
            "above 0, baseline=true and timing above 0"
        )
    return kind, value


def _check_searched(config: DecodeConfig, text: str) -> None:
    """Raise ValueError for settings without one rule setting and one lookahead to search at."""
    if config.system is not System.speculative or not isinstance(
        config.rule, GroupRule | ToleranceRule
    ):
        raise ValueError(
            f"match={text} searches a rule's setting; give system=speculative and "
            "rule=group or rule=tolerance"
        )
    if isinstance(config.rule, GroupRule) and config.rule.groups.path is not None:
        raise ValueError(
            f"match={text} searches the size of the groups, and rule.groups.path names a cache of "
            "one size; leave it null"
        )
    if config.seeks_lookahead:
        raise ValueError(
            f"match={text} compares rules at one lookahead, and lookahead=auto finds each rule its "
            "own; give lookahead=<number>"
        )


def search(
    measure: Callable[[float], float],
    goal: float,
    ends: tuple[float, float],
    known: dict[float, float],
    first: float,
    scale: Scale = (float, float),
) -> dict[float, float]:
    """Try settings until a figure is near `goal` or the trials are used up; return them.

    The figure rises with the setting. While no known setting brackets the goal the lower end is
    measured, or one beyond the largest, where its last two would lead (`first` where none is
    known); then false position and halving in turn, on the axis that `scale` (there, back)
    straightens: the first is quick on straight curves, the second sure on bent ones.
    """
    there, back = scale
    tried = dict(known)

    def bracket() -> tuple[float | None, float | None]:
        below = [x for x, y in tried.items() if y < goal]
        above = [x for x, y in tried.items() if y >= goal and x > max(below, default=-math.inf)]
        return max(below, default=None), min(above, default=None)

    halve = False
    for _ in range(TRIALS):
        if tried and abs(tried[nearest(tried, goal)] / goal - 1) <= ACCURACY:
            break
        low, high = bracket()
        if high is None or low is None:
            setting = (
                min(ends[1], float(f"{_beyond(tried, goal, first, scale):.3g}"))
                if high is None
                else ends[0]
            )
            if setting in tried:
                break
        else:
            part = 0.5 if halve else (goal - tried[low]) / (tried[high] - tried[low])
            place = there(low) + min(max(part, 0.1), 0.9) * (there(high) - there(low))
            halve = not halve
            setting = float(f"{back(place):.3g}")
            if setting in tried:
                break
        tried[setting] = measure(setting)
    return tried


def _beyond(tried: dict[float, float], goal: float, first: float, scale: Scale) -> float:
    """Extrapolate a line through the largest two, within `BEYOND`; `first` without any."""
    if not tried:
        return first
    there, back = scale
    before, last = sorted(tried)[-2:][0], max(tried)
    steps = [factor * last or first for factor in BEYOND]
    rise = tried[last] - tried[before]
    if rise <= 0:
        return steps[-1]
    low, high = map(there, steps)
    slope = (there(last) - there(before)) / rise
    return back(min(max(there(last) + slope * (goal - tried[last]), low), high))


def nearest(tried: dict[float, float], goal: float) -> float:
    """Return the setting whose figure is nearest to the goal."""
    return min(tried, key=lambda setting: abs(tried[setting] - goal))


def largest_size(config: DecodeConfig) -> float:
    """The largest mean size of groups: all codes, or as many as the pairs of a cache may be."""
    from speculative_tts.caches.groups import MOST_PAIRS
    from speculative_tts.models.families.registry import load_layout

    layout = load_layout(config.target)
    codes = layout.n_codes - len(set(layout.stop_ids) & set(range(layout.n_codes)))
    cap = config.rule.groups.cap if isinstance(config.rule, GroupRule) else None
    cap = cap or codes
    return float(min(codes, cap, MOST_PAIRS // codes))


def with_setting(config: DecodeConfig, setting: float) -> DecodeConfig:
    """Replace the rule's setting: mean group size, or tolerance."""
    rule: RuleConfig
    if isinstance(config.rule, GroupRule):
        groups = dataclasses.replace(config.rule.groups, theta=None, mean_size=setting)
        rule = dataclasses.replace(config.rule, groups=groups)
    else:
        rule = ToleranceRule(beta=setting)
    return dataclasses.replace(config, rule=rule)


def known(trial: DecodeConfig, figure: Figure) -> dict[float, float]:
    """Return figures, by setting, of finished runs in `trial.out` that differ in it alone."""
    there = settings_beside(Path(trial.out), "delete that run")
    rules = [one.get("rule", {}) for one in there]
    same = [rule for rule in rules if rule.get("name") == trial.rule.name]
    by_size = isinstance(trial.rule, GroupRule)
    settings = {rule["groups"]["mean_size"] if by_size else rule["beta"] for rule in same}
    settings.discard(None)  # groups of a given theta
    found = {setting: finished(with_setting(trial, setting), figure) for setting in settings}
    return {setting: value for setting, value in found.items() if value is not None}


def finished(config: DecodeConfig, figure: Figure) -> float | None:
    """Return the figure of a finished run; None if there is none.

    Tokens do not depend on how many utterances are timed: only a speed by the clock asks for that.
    """
    timings = [config.timing]
    if figure is not speedup:
        there = settings_beside(Path(config.out), "delete that run")
        timings += {one.get("timing") for one in there}
    for timing in timings:
        folder = Path(config.out) / run_name(dataclasses.replace(config, timing=timing))
        if is_done(folder):
            return figure(read_records(folder).values())
    return None


def measured(config: DecodeConfig, run: Run, figure: Figure) -> float:
    """Return the figure of a run, made if it is not there."""
    found = finished(config, figure)
    if found is None:
        if run(config):
            raise ValueError(
                "a run that match= wants has utterances that failed, as told above; mend or leave "
                "out those rows of the list"
            )
        found = finished(config, figure)
    if found is None:
        raise ValueError(f"no round was decoded with limit={config.limit}; give longer texts")
    return found


def acceptance_length(records: Collection[DecodeRecord]) -> float | None:
    """Return the tokens that a round emits."""
    counts = [record.counts for record in records]
    rounds = sum(one.rounds for one in counts)
    emitted = sum(one.accepted + one.residuals + one.bonuses for one in counts)
    return emitted / rounds if rounds else None


def speedup(records: Collection[DecodeRecord]) -> float | None:
    """Tokens a second over those of the target alone, each decoded in the same process."""
    tokens, seconds, baseline_tokens, baseline_seconds = (
        sum(getattr(one, name) or 0 for one in records if one.lm_seconds is not None)
        for name in ("tokens", "lm_seconds", "baseline_tokens", "baseline_seconds")
    )
    over = seconds * baseline_tokens
    return tokens * baseline_seconds / over if over else None


SPEEDS: dict[str, tuple[str, Figure]] = {
    "beta": ("acceptance length", acceptance_length),
    "size": ("acceptance length", acceptance_length),
    "length": ("acceptance length", acceptance_length),
    "speedup": ("speedup", speedup),
}
OTHERS = {"beta": "SSD with beta", "size": "groups by embeddings of mean size"}
