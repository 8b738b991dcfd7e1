"""Which setting of a rule is as fast as SSD with a given tolerance (PCG's tables 1 and 3).

Speed is compared by acceptance length: at one lookahead a round costs every rule the same, so it
orders rules by speed, and it is free of timing noise. The search runs at seed 0; runs that are
there already, of an earlier sweep too, are looked up before any is made.
"""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

from speculative_tts.schema import DecodeConfig, Rule, System

Run = Callable[[DecodeConfig], int]
Measure = Callable[[float], float]  # acceptance length with a setting

SEED = 0
ACCURACY = 0.01  # of the acceptance length, relatively
TRIALS = 6  # runs that the search makes at most
SIZES = (1.0, 4.5, 10.0, 40.0, 140.0)  # the ends bound the search, as in the paper
BETAS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 1.0)


def matched(config: DecodeConfig, run: Run) -> DecodeConfig:
    """`config` with the setting of its rule whose acceptance length is nearest to that of SSD.

    `run` makes the runs of the search. Says where it landed; where the end of the range does not
    reach, that end is taken. Raises ValueError for systems and rules without a setting to search.
    """
    if config.system is not System.speculative or config.rule.name is Rule.exact:
        raise ValueError(
            f"match={config.match} searches a rule's setting; give system=speculative and "
            "rule=group or rule=tolerance"
        )
    plain = dataclasses.replace(config, match=None)
    trial = dataclasses.replace(plain, seed=SEED)
    rule = dataclasses.replace(config.rule, name=Rule.tolerance, beta=float(config.match or 0))
    goal = acceptance_length(dataclasses.replace(trial, rule=rule), run)
    known: dict[float, float] = {}
    for setting in BETAS if config.rule.name is Rule.tolerance else SIZES:
        found = done_already(with_setting(trial, setting))
        known |= {} if found is None else {setting: found}
    by_size = config.rule.name is Rule.group
    ends = (SIZES[0], SIZES[-1]) if by_size else (BETAS[0], BETAS[-1])
    tried = search(
        lambda setting: acceptance_length(with_setting(trial, setting), run),
        goal,
        ends,
        known,
        scale=(math.log, math.exp) if by_size else (float, float),
    )
    best = nearest(tried, goal)
    away = 100 * (tried[best] / goal - 1)
    name = "groups.mean_size" if by_size else "beta"
    verdict = "" if abs(away) <= 300 * ACCURACY else "; the range does not reach it"
    print(
        f"match: rule.{name}={best:g} emits {tried[best]:.3f} tokens a round, SSD with beta "
        f"{rule.beta:g} {goal:.3f} ({away:+.1f} %){verdict}"
    )
    return with_setting(plain, best)


def search(
    measure: Measure,
    goal: float,
    ends: tuple[float, float],
    known: dict[float, float],
    scale: tuple[Callable[[float], float], Callable[[float], float]] = (float, float),
) -> dict[float, float]:
    """Settings tried, with their figures, until one is near `goal` or the trials are used up.

    The figure rises with the setting. Both ends are measured only as far as no known setting
    brackets the goal; then false position and halving in turn, on the axis that `scale` (there,
    back) straightens: the first is quick on straight curves, the second sure on bent ones.
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
            setting = ends[1] if high is None else ends[0]
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


def nearest(tried: dict[float, float], goal: float) -> float:
    """The setting whose figure is nearest to the goal."""
    return min(tried, key=lambda setting: abs(tried[setting] - goal))


def with_setting(config: DecodeConfig, setting: float) -> DecodeConfig:
    """The rule's setting replaced: mean group size, or tolerance."""
    if config.rule.name is Rule.tolerance:
        rule = dataclasses.replace(config.rule, beta=setting)
    else:
        groups = dataclasses.replace(config.rule.groups, theta=None, mean_size=setting)
        rule = dataclasses.replace(config.rule, groups=groups)
    return dataclasses.replace(config, rule=rule)


def done_already(config: DecodeConfig) -> float | None:
    """Acceptance length of a finished run; None when it is not there."""
    from speculative_tts.commands.decode import DONE, run_name
    from speculative_tts.decoding.run import read_records

    folder = Path(config.out) / run_name(config)
    if not (folder / DONE).is_file():
        return None
    records = read_records(folder).values()
    rounds = sum(record.rounds for record in records)
    emitted = sum(one.accepted + one.residuals + one.bonuses for one in records)
    return emitted / rounds if rounds else None


def acceptance_length(config: DecodeConfig, run: Run) -> float:
    """Tokens emitted a round by a run, made if it is not there."""
    found = done_already(config)
    if found is None:
        run(config)
        found = done_already(config)
    if found is None:
        raise ValueError(f"no round was decoded with limit={config.limit}; give longer texts")
    return found
