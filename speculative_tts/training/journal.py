"""metrics.jsonl of a training: rows of steps and of evaluations, each step once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from speculative_tts.records import Appender, read_jsonl, write_jsonl

METRICS = "metrics.jsonl"

Log = Callable[[dict[str, Any]], None]


def silent(row: dict[str, Any]) -> None:
    """What processes other than the main one log."""


@contextmanager
def journal(folder: Path, last_step: int, track: Log = silent) -> Iterator[Log]:
    """Appends rows after those up to `last_step`, and hands them to `track` (wandb) too.

    Rows after `last_step` are of steps that a killed training did after its last saved state: they
    are dropped, because these steps are done again.
    """
    path = folder / METRICS
    if path.is_file():
        write_jsonl(path, [row for row in read_jsonl(path, "step") if row["step"] <= last_step])
    appender = Appender(path)

    def write(row: dict[str, Any]) -> None:
        appender.append(row)
        appender.sync()  # no row lacks that a saved state is beyond
        track(row)

    try:
        yield write
    finally:
        appender.close()
