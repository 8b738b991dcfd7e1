"""Track runs in wandb if a command is asked to: one wandb run per output folder.

Without a network set WANDB_MODE=offline; `wandb sync` sends the stored data later.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from speculative_tts.files import text_hash
from speculative_tts.provenance import plain

PROJECT = "speculative_tts"
Log = Callable[[dict[str, Any]], None]


@contextmanager
def tracked_rows(config: Any, folder: Path) -> Iterator[Log]:
    """Yield a function that sends rows with their `step` to wandb, if config.wandb is set.

    The first row starts the run, so that of several processes only the writing one does.
    """
    run = None
    with ExitStack() as stack:

        def log(row: dict[str, Any]) -> None:
            nonlocal run
            if config.wandb:
                run = run or stack.enter_context(_run_of(folder, plain(config)))
                run.log(row, step=row["step"])

        yield log


def track_figures(
    stage: str, config: Any, folder: Path, metrics: Mapping[str, Mapping[str, Any]]
) -> None:
    """Send a run's figures {value, low, high} as its summary, if config.wandb is set."""
    if config.wandb:
        with _run_of(folder, {stage: plain(config)}) as run:
            run.summary.update(flat(metrics))


def flat(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Flatten figures to names such as wer, wer_low, wer_high."""
    names = {"value": "", "low": "_low", "high": "_high"}
    return {
        f"{name}{ending}": figure[key]
        for name, figure in metrics.items()
        for key, ending in names.items()
        if figure.get(key) is not None
    }


def _run_of(folder: Path, settings: dict[str, Any]) -> Any:
    """Open the wandb run of a folder, whose id is a hash of the path.

    So a resumed training continues its run, and scores join the run that was decoded.
    """
    import wandb

    id_ = text_hash(str(folder.resolve()))[:16]
    return wandb.init(project=PROJECT, name=folder.name, id=id_, resume="allow", config=settings)
