"""Run folders as rows: those that are scored, and why the others cannot be used."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from speculative_tts.evaluation.ratings import read_ratings
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


@dataclass(frozen=True)
class Run:
    """A scored run folder. `config` is flat: {"rule.beta": 0.4, ...}."""

    folder: Path
    config: Where
    summary: Mapping[str, Any]
    provenance: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Name of the folder: label and signature."""
        return self.folder.name

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return int(self.config.get("seed", 0))

    def rows(self, file: str) -> dict[str, dict[str, Any]]:
        """Rows of scores.jsonl or records.jsonl by utterance; empty when the file is gone."""
        path = self.folder / file
        return {row["id"]: row for row in read_jsonl(path, "id")} if path.is_file() else {}


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
