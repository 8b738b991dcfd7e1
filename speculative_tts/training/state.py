"""Keep a training's folder: its settings, its newest states and its summary.

settings.json holds what decides the result; fitted.json the numbers that were fitted to a budget of
minutes by timing, once; state-<step>.pt all that the remaining steps depend on
(whole or absent, the newest two are kept), so that a killed training resumes; summary.json the last
figures: a training that has it is done.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from speculative_tts.files import writing
from speculative_tts.provenance import plain
from speculative_tts.typed import read_json, write_json

TRAINING = "training"  # the folder, beside what is exported
SETTINGS, FITTED, SUMMARY = "settings.json", "fitted.json", "summary.json"
KEPT = 2  # states
EMPTY: Mapping[str, int] = MappingProxyType({})
_PATTERN = "state-*.pt"


@dataclass(frozen=True)
class Best:
    """The best evaluation so far, and the trained parameters then (the main process has them)."""

    step: int
    value: float
    parameters: dict[str, Tensor]


@dataclass(frozen=True)
class State:
    """Everything that the rest of a training depends on, besides its settings and data."""

    step: int  # optimiser steps done
    parameters: dict[str, Tensor]
    optimizers: list[dict[str, Any]]
    figures: dict[str, Any]  # of the last evaluation
    best: Best | None


def settings_of(config: Any, **made_of: Any) -> dict[str, Any]:
    """Return the settings that decide the result, as JSON values; `made_of` stands for paths.

    Those are left out whose types say so (`schema.fields.Aside`), in groups of settings none.
    """
    counts = plain(config, identity=True)
    return {key: value for key, value in plain(config).items() if key in counts} | made_of


def _same(before: Any, now: Any) -> bool:
    """Return True if a setting is as it was; of a group of settings an absent one counts as 0."""
    if isinstance(before, dict) and isinstance(now, dict):
        return all(before.get(key, 0) == now.get(key, 0) for key in before | now)
    return bool(before == now)


def done_before(
    folder: Path, settings: Mapping[str, Any], *, extend: bool = False
) -> dict[str, Any] | None:
    """Return the summary if this training is done.

    Raise ValueError if the folder's training has other settings; with `extend` it may be continued.
    """
    path = folder / SETTINGS
    before = read_json(path) if path.is_file() else settings
    for key in sorted({*before, *settings}):
        if not _same(before.get(key), settings.get(key)):
            if extend:
                return None
            raise ValueError(
                f"{folder.parent} was made with {key}={before.get(key)}, now "
                f"{settings.get(key)}; use the same settings or another out"
            )
    if not (folder / SUMMARY).is_file():
        return None
    if not extend:
        clear_states(folder)  # a kill may have come between the summary and this
    return read_json(folder / SUMMARY)


def begin(folder: Path, settings: Mapping[str, Any], fitted: Mapping[str, int] = EMPTY) -> None:
    """Write the settings of a training that begins and what was fitted; mark it as not done."""
    (folder / SUMMARY).unlink(missing_ok=True)
    write_json(folder / SETTINGS, dict(settings))
    if fitted:
        write_json(folder / FITTED, dict(fitted))


def fitted_before(folder: Path) -> dict[str, int]:
    """Return the numbers that a process before this one fitted to its minutes; empty if none."""
    path = folder / FITTED
    return read_json(path) if path.is_file() else {}


def finish(folder: Path, summary: Mapping[str, Any]) -> None:
    """Mark the training as done, once its product is written."""
    write_json(folder / SUMMARY, dict(summary))


def save_state(folder: Path, state: State) -> None:
    """Write `folder`/state-<step>.pt atomically and drop all but the newest two."""
    with writing(folder / f"state-{state.step:08d}.pt") as file:
        torch.save({**vars(state), "best": state.best and vars(state.best)}, file)
    for old in sorted(folder.glob(_PATTERN))[:-KEPT]:
        old.unlink()


def load_state(folder: Path) -> State | None:
    """Load the newest state, None if there is none; raise ValueError if it cannot be read."""
    paths = sorted(folder.glob(_PATTERN))
    if not paths:
        return None
    try:
        stored = torch.load(paths[-1], map_location="cpu", weights_only=True)
        best = stored.pop("best")
        return State(**stored, best=best and Best(**best))
    except Exception as error:  # torch.load raises many types, and advises to load without care
        raise ValueError(
            f"{paths[-1]} is broken or no training state; delete it, and training goes on from "
            "the state before"
        ) from error


def clear_states(folder: Path) -> None:
    """Remove all states, and partial ones that a killed writer left."""
    for pattern in (_PATTERN, f".{_PATTERN}.*.tmp"):
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)


def copy_into(parameters: Mapping[str, Tensor], stored: Mapping[str, Tensor], named: str) -> None:
    """Copy stored values into the parameters of these names; raise ValueError if they differ."""
    shapes = {name: parameter.shape for name, parameter in parameters.items()}
    if shapes != {name: value.shape for name, value in stored.items()}:
        raise ValueError(f"{named} is of another model; give another out, or delete it")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(stored[name])
