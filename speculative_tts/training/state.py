"""Training state on disk, whole or absent, the last two kept: a killed training goes on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speculative_tts.files import writing

KEPT = 2
_PATTERN = "state-*.pt"


@dataclass(frozen=True)
class Best:
    """The best dev evaluation so far and the trained parameters then (on the CPU)."""

    step: int
    value: float
    parameters: dict[str, Tensor]


@dataclass(frozen=True)
class State:
    """Everything that the rest of a training depends on, besides its settings and data."""

    step: int  # optimizer steps done
    parameters: dict[str, Tensor]
    optimizers: list[dict[str, Any]]
    best: Best


def save_state(folder: Path, state: State) -> None:
    """Write `folder`/state-<step>.pt atomically and drop all but the newest two."""
    path = folder / f"state-{state.step:08d}.pt"
    with writing(path) as file:
        torch.save({**vars(state), "best": vars(state.best)}, file)
    for old in sorted(folder.glob(_PATTERN))[:-KEPT]:
        old.unlink()


def load_state(folder: Path) -> State | None:
    """The newest state of `folder`, None when there is none. ValueError when it cannot be read."""
    paths = sorted(folder.glob(_PATTERN))
    if not paths:
        return None
    try:
        stored = torch.load(paths[-1], map_location="cpu", weights_only=True)
        return State(**{**stored, "best": Best(**stored["best"])})
    except Exception as error:  # torch.load raises many types for a broken file
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"training state {paths[-1]} is unreadable ({reason}); delete it to go on before it"
        ) from error


def clear_states(folder: Path) -> None:
    """Remove all states and what a killed writer left of one."""
    for pattern in (_PATTERN, f".{_PATTERN}.*.tmp"):
        for path in folder.glob(pattern):
            path.unlink()
