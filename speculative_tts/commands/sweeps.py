"""Is it a sweep, and where is it: which job of how many, and about how long the others take."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

# How what may bring a sweep of its own begins on a command line.
MAY_SWEEP = ("experiment=", "hydra", "+", "-c", "--config")
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


@contextmanager
def composed_once(argv: Sequence[str]) -> Iterator[None]:
    """Inside, Hydra composes each point of a sweep once: what it checks first is what it runs.

    It composes all points before the first one runs, so that a mistake in one is told at once, and
    each again when its turn comes, a sixth of a second each time. Before that it composes to see
    whether a file asks for a sweep, which an experiment may, a user's own file, and nothing else.
    """
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra._internal.hydra import Hydra
    from omegaconf import OmegaConf

    compose, checked = ConfigLoaderImpl.load_sweep_config, dict[tuple[str, ...], Any]()
    mode, asks = Hydra.get_mode, any(word.startswith(MAY_SWEEP) for word in argv)

    def once(self: Any, master_config: Any, sweep_overrides: list[str]) -> Any:
        point = tuple(sweep_overrides)
        found = checked.pop(point, None)
        if found is None or OmegaConf.is_readonly(found.hydra):  # Hydra locks what it has run
            found = checked[point] = compose(self, master_config, sweep_overrides)
        return found

    ConfigLoaderImpl.load_sweep_config = once  # type: ignore[method-assign]
    if not asks:
        Hydra.get_mode = lambda *_, **__: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        Hydra.get_mode = mode  # type: ignore[method-assign]
        ConfigLoaderImpl.load_sweep_config = compose  # type: ignore[method-assign]
