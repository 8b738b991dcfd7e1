"""Trainings that are killed at a step, in this process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from speculative_tts.training.loop import Training


@contextmanager
def killed_before(step: int, kind: type[Training] = Training) -> Iterator[None]:
    """Kill trainings of a kind that run within, before a step."""
    run = kind.run_step

    def dies(self: Training) -> dict[str, Any]:
        if self.step == step:
            raise KeyboardInterrupt
        return run(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "run_step", dies)
        yield


def killed_at(step: int) -> Callable[[dict[str, Any]], None]:
    """Return a tracker that kills its training once a step is logged."""

    def killed(row: dict[str, Any]) -> None:
        if row["step"] == step:
            raise KeyboardInterrupt

    return killed
