"""Is it a sweep, and where is it: which job of how many, and about how long the others take."""

from collections.abc import Sequence
from time import monotonic
from typing import Any

began: dict[int, float] = {}  # by jobs: when the first one of a sweep in this process began


def place(job: Any, overrides: Sequence[str]) -> str:
    """`job 3 of 12, about 5 min left`, from Hydra's job and what was asked for.

    Jobs that were done already take no time, so the first words of a sweep that goes on are high.
    """
    number, jobs = job.job.num, len(grid(job, overrides))
    if number == 0:
        began[jobs] = monotonic()
    told = f"job {number + 1} of {jobs}"
    if number == 0 or jobs not in began:
        return told
    left = (monotonic() - began[jobs]) / number * (jobs - number)
    return (
        f"{told}, about {left:.0f} s left"
        if left < 90
        else f"{told}, about {left / 60:.0f} min left"
    )


def grid(job: Any, overrides: Sequence[str]) -> list[list[str]]:
    """The points of a sweep, as Hydra's own sweeper takes them from its parameters and a user."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.override_parser.overrides_parser import OverridesParser

    params = [f"{key}={value}" for key, value in (job.sweeper.get("params") or {}).items()]
    parsed = OverridesParser.create().parse_overrides([*params, *overrides])
    (points,) = BasicSweeper.split_arguments(parsed, None)
    return points


def has_sweep(overrides: list[str]) -> bool:
    """Does any override ask for more than one run (a=1,2)? Quoted commas do not.

    ValueError for one that asks for none, `a=range(1,0)`.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import RangeSweep

    parsed = OverridesParser.create().parse_overrides(overrides)
    for one in parsed:
        if isinstance(swept := one.value(), RangeSweep) and not [*swept.range()]:
            raise ValueError(f"{one.input_line} has no value; give at least one")
    return any(one.is_sweep_override() for one in parsed)
