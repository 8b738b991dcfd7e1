"""Read run folders: the figures of those that are scored, and why others cannot be used."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from speculative_tts.evaluation.aggregate import aggregate
from speculative_tts.evaluation.ratings import QUANTITIES as HEARD
from speculative_tts.evaluation.ratings import read_ratings
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.statistics import NOTHING, SCALED, Measure
from speculative_tts.evaluation.summary import Bootstrap
from speculative_tts.records import read_jsonl
from speculative_tts.runs.folder import (
    AGAIN,
    CONFIG,
    RECORDS,
    SCORES,
    SUMMARY,
    configured_runs,
    is_done,
    read_config,
    read_provenance,
    scored_lists,
)
from speculative_tts.schema.fields import Whole
from speculative_tts.typed import read_json, typed

Where = Mapping[str, Any]  # dotted configuration key -> value
STARVED = 0.7  # share of a quiet machine's memory speed; with less a speed leads no table


@dataclass(frozen=True)
class Run:
    """A scored run folder; or several that differ in their seed, with the figures of all.

    `config` is flat: {"rule.beta": 0.4, ...}. What is not a figure is of the first seed.
    """

    folder: Path
    config: Where
    summary: Mapping[str, Any]
    provenance: Mapping[str, Any]
    pooled: tuple["Run", ...] = ()  # the runs that the figures are of, where not this one alone

    @property
    def name(self) -> str:
        """Name of the folder: label and signature."""
        return self.folder.name

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return int(self.config.get("seed", 0))

    @property
    def lookahead(self) -> int:
        """Tokens that it drafts a round."""
        return int(self.config.get("lookahead", 0))

    @property
    def seeds(self) -> tuple["Run", ...]:
        """The runs of single seeds."""
        return self.pooled or (self,)

    def measure(self, name: str) -> Measure:
        """Return a quantity by name; `acceptance@1` is that of the first drafted position.

        `groups.theta` is a fact of the groups that the run used.
        """
        if name.startswith("groups."):
            return Measure(_fact(self.provenance, name.split(".")))
        base, at, position = name.partition("@")
        if at:
            values = self.summary.get("per_position", {}).get(base) or []
            index = int(position) - 1
            return Measure(values[index]) if index < len(values) else NOTHING
        figure = self.summary.get("metrics", {}).get(name) or {}
        parts: dict[str, Any] = {key: figure.get(key) for key in (*SCALED, "n", "processes")}
        clocked = name in METRICS and METRICS[name].timed and parts["value"] is not None
        if clocked and parts["processes"] is None:
            parts["processes"] = 1  # of a run before several were timed
        return Measure(**parts)

    def with_figures(self, figures: Mapping[str, Any]) -> "Run":
        """Return the run with other figures, of the same seeds."""
        return replace(self, summary={**self.summary, **figures}, pooled=self.seeds)

    @property
    def starved(self) -> str:
        """Say how fast memory was beside a quiet machine's, where that was much less."""
        for run in self.seeds:
            of_one, quiet = (
                _fact(run.provenance, ("memory", name)) for name in ("gb_per_second", "quiet")
            )
            speed = run.summary.get("memory") or of_one  # the median of several processes
            if speed and quiet and speed < STARVED * quiet:
                return f"starved: {speed:.0f} GB/s a core, quiet {quiet:.0f}"
        return ""

    def judge(self, metric: str) -> str:
        """Return the id of the judge who measured; empty when nobody did."""
        return str(self.summary.get("judges", {}).get(metric, {}).get("id", ""))

    @property
    def drawn(self) -> Bootstrap:
        """Settings of sst-eval's intervals, with which those made here agree."""
        settings = self.summary.get("bootstrap", {})
        return Bootstrap(**{k: settings[k] for k in ("draws", "unit", "seed") if k in settings})

    def rows(self, file: str) -> dict[str, dict[str, Any]]:
        """Rows of scores.jsonl or records.jsonl by utterance; empty when the file is gone."""
        path = self.folder / file
        return {row["id"]: row for row in read_jsonl(path, "id")} if path.is_file() else {}


def pooled(runs: Sequence[Run]) -> Run:
    """Return runs of one system that differ in their seed as one.

    Listeners' ratings are those of one of them: a test has one run a system.
    """
    first, *others = runs
    made: dict[str, Any] = {}
    if others:
        made = aggregate([run.folder for run in runs], first.drawn)
        rated = [run.summary.get("metrics", {}) for run in runs]
        made["metrics"] |= {name: one[name] for one in rated for name in HEARD if name in one}
    return replace(first, pooled=tuple(runs)).with_figures(made)


def measured(names: str, runs: Iterable[Run]) -> str:
    """Choose from `utmos|dnsmos` the first that a run has; the last where none has any."""
    known = list(runs)
    *first, last = names.split("|")
    for name in first:
        if any(one.measure(name).value is not None for one in known):
            return name
    return last


def _fact(values: Any, keys: Sequence[str]) -> float | None:
    """Return a number inside nested mappings; None where there is none."""
    for key in keys:
        values = values.get(key) if isinstance(values, Mapping) else None
    return float(values) if isinstance(values, int | float) else None


@dataclass(frozen=True)
class Found:
    """The contents of a folder: scored runs, and for the others why they cannot be used."""

    folder: Path
    runs: tuple[Run, ...]
    unusable: Mapping[str, str] = field(default_factory=dict)
    foreign: tuple[Run, ...] = ()  # scored audio of other systems


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        flat |= flatten(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return flat


def find_runs(folder: Path) -> Found:
    """Read the run folders inside `folder`, or else inside its folders; ValueError without any."""
    if not folder.is_dir():
        raise ValueError(f"runs={folder} is not a folder; run sst-decode, or give runs=<folder>")
    folders = configured_runs(folder)
    foreign = tuple(map(_foreign, scored_lists(folder)))
    if not folders and not foreign:
        raise ValueError(f"runs={folder} holds no run; run sst-decode out={folder} first")
    runs, unusable = [], {}
    for path in folders:
        try:
            runs.append(_read(path))
        except ValueError as error:
            unusable[path.name] = str(error)
    return Found(folder, tuple(runs), unusable, foreign)


def unscored(folder: Path) -> Run:
    """Return a run by its configuration alone (perhaps none), before it is scored."""
    return Run(folder, flatten(read_config(folder)), {}, {})


def _foreign(folder: Path) -> Run:
    """Return a list's scores as a run without configuration."""
    path = folder / SUMMARY
    written = read_json(path, AGAIN)
    typed(_Summary, written, path)
    return Run(folder, {}, written, {})


def _read(folder: Path) -> Run:
    """One run, its files read once so that a table is not left half made. ValueError says why not.

    A broken run is left out and named; the others make their tables.
    """
    if not is_done(folder):
        raise ValueError("not finished; start its sst-decode again, it goes on where it was")
    scoring = f"sst-eval runs={shlex.quote(str(folder))}"
    if not (folder / SUMMARY).is_file():
        raise ValueError(f"not scored; {scoring}")
    written = read_json(folder / SUMMARY, AGAIN)
    summary = typed(_Summary, written, folder / SUMMARY)
    written["metrics"] |= read_ratings(folder)
    if summary.run.get("complete") is False:
        raise ValueError(f"scored before it was finished; {scoring}")
    run = Run(folder, flatten(read_json(folder / CONFIG, AGAIN)), written, read_provenance(folder))
    for file in (RECORDS, SCORES):
        run.rows(file)
    return run


@dataclass(frozen=True)
class _Summary:
    """The fields that summary.json must have."""

    run: dict[str, Any]
    metrics: dict[str, dict[str, Any]]
    n: Whole
