"""Read configs/experiment, whose files say which runs a report shows, at either scale.

A paper's experiment `ssd/table3` has a twin at the paper's own scale, `ssd/paper_table3`. Tables
and figures take their rows and points from the grids of one of them, so that no number stands in
both places.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

from speculative_tts.assets import configuration, configurations
from speculative_tts.reporting.runs import Run, Where, flatten

PAPER = "paper_"
FINE = "tiny_fine"  # the target of the papers' speculation at tiny scale


@dataclass(frozen=True)
class Experiment:
    """A file of configs/experiment: what it sets, flat, and the values that it sweeps."""

    name: str
    settings: Where
    grid: Mapping[str, Sequence[Any]]

    def values(self, key: str) -> Sequence[Any]:
        """Return the values of a key: swept, or the one that is set."""
        return self.grid[key] if key in self.grid else (self.settings[key],)

    def numbers(self, key: str) -> list[float]:
        """Return the values of a key as floats."""
        return [float(value) for value in self.values(key)]

    def points(self, without: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Return every combination of the swept values, but for some keys."""
        keys = [key for key in self.grid if key not in without]
        combined = product(*map(self.values, keys))
        return [dict(zip(keys, values, strict=True)) for values in combined]

    def some(self, *keys: str) -> dict[str, Any]:
        """Return some of the settings."""
        return {key: self.settings[key] for key in keys}

    @property
    def target(self) -> str:
        """Name of its target."""
        return str(self.settings.get("target.name", "tiny"))


@dataclass(frozen=True)
class Scale:
    """The size of an experiment: the shipped tiny system's or the papers' own.

    With `target`, that target, by whatever draft, stands where the experiments have the fine one.
    """

    prefix: str = ""
    target: str | None = None

    def experiment(self, paper: str, name: str) -> Experiment:
        """Return a paper's experiment at this scale."""
        return self.read(f"{paper}/{self.prefix}{name}")

    def read(self, name: str) -> Experiment:
        """Return an experiment by its name below configs/experiment, of this scale's target."""
        made = read(name)
        if self.target is None or made.target != FINE:
            return made
        kept = {k: v for k, v in made.settings.items() if not k.startswith(("draft.", "codec."))}
        return replace(made, settings=kept | {"target.name": self.target})

    def has(self, paper: str, name: str) -> bool:
        """Return True if the paper has this experiment at this scale."""
        return f"{self.prefix}{name}" in configurations(f"experiment/{paper}")


TINY, PAPERS_OWN = Scale(), Scale(PAPER)


def scale_of(paper: str, runs: Iterable[Run]) -> Scale:
    """Return the scale of most of these runs, by whether theirs is a target of the paper's own.

    Runs that are all of one target which no experiment has get a scale with that target.
    """
    names = [f"{paper}/{name}" for name in configurations(f"experiment/{paper}")]
    own = {read(name).target for name in names if f"/{PAPER}" in name}
    targets = [run.config.get("target.name") for run in runs]
    (target, *others) = {*targets} or {None}
    if isinstance(target, str) and not others and target not in _targets():
        return Scale(target=target)
    return PAPERS_OWN if 2 * sum(target in own for target in targets) > len(targets) else TINY


@cache
def _targets() -> frozenset[str]:
    """Return the names of the targets of all experiments."""
    folders = ["", *(f"{paper}/" for paper in ("ssd", "pcg", "mtp", "drafters"))]
    return frozenset(
        read(f"{folder}{name}").target
        for folder in folders
        for name in configurations(f"experiment/{folder}")
    )


def read(name: str) -> Experiment:
    """Read an experiment that ships, by its name below configs/experiment."""
    raw = configuration(f"experiment/{name}")
    grid = raw.pop("hydra", {}).get("sweeper", {}).get("params", {})
    return Experiment(name, _settings(raw), {key: values(key, text) for key, text in grid.items()})


def method(name: str) -> dict[str, Any]:
    """Return what `method=<name>` sets."""
    return _settings(configuration(f"method/{name}"))


def _settings(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the file's own settings, and those of the files that it chooses, flat."""
    chosen: dict[str, Any] = {}
    for one in raw.get("defaults", []):
        for key, choice in one.items():
            group = key.removeprefix("override").strip(" /")
            chosen |= flatten(_own(configuration(f"{group}/{choice}")), f"{group}.")
    return chosen | flatten(_own(raw))


def _own(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if key != "defaults"}


def values(key: str, text: Any) -> tuple[Any, ...]:
    """Parse `key=text` as Hydra's sweeper does: a list of choices, a range, or one value."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import Transformer

    (override,) = OverridesParser.create().parse_overrides([f"{key}={text}"])
    if not override.is_sweep_override():
        return (override.value(),)
    return tuple(override.sweep_iterator(Transformer.identity))
