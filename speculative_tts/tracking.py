"""wandb, when it is asked for: one run of it for each output folder, whoever writes there.

Without a network set WANDB_MODE=offline; `wandb sync` sends later what was kept.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from speculative_tts.provenance import plain

PROJECT = "speculative_tts"
Log = Callable[[dict[str, Any]], None]


@contextmanager
def tracked_rows(config: Any, folder: Path) -> Iterator[Log]:
    """A function that sends rows with their `step` to wandb, if config.wandb asks for it.

    The first row begins the run: of several processes one writes rows.
    """
    if config.wandb:
        import wandb  # noqa: F401 - told now, not after an hour, that it is not installed
    run = None
    with ExitStack() as stack:

        def log(row: dict[str, Any]) -> None:
            nonlocal run
            if config.wandb:
                run = run or stack.enter_context(_run_of(config, folder))
                run.log(row, step=row["step"])

        yield log


def summarise(config: Any, folder: Path, figures: Mapping[str, Any]) -> None:
    """Send a finished run's figures to wandb, if config.wandb asks for it."""
    if config.wandb:
        with _run_of(config, folder) as run:
            run.summary.update(figures)


def _run_of(config: Any, folder: Path) -> Any:
    """The wandb run of a folder; its id comes from the path.

    So a training that goes on continues its run, and scores join what was decoded.
    """
    import wandb

    id_ = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return wandb.init(
        project=PROJECT, name=folder.name, id=id_, resume="allow", config=plain(config)
    )
