"""metrics.jsonl of a training: a row a step and a row a dev evaluation, each step once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from speculative_tts.records import Appender, read_jsonl, write_jsonl

METRICS = "metrics.jsonl"

Log = Callable[[dict[str, Any]], None]


@contextmanager
def journal(folder: Path, last_step: int, log: Log | None = None) -> Iterator[Log]:
    """Appends rows after those up to `last_step`, and hands them to `log` (wandb) too.

    Rows after `last_step` are of steps that a killed training did after its last saved state: they
    are dropped, because these steps are done again.
    """
    path = folder / METRICS
    if path.is_file():
        write_jsonl(path, [row for row in read_jsonl(path, "step") if row["step"] <= last_step])
    appender = Appender(path)

    def write(row: dict[str, Any]) -> None:
        appender.append(row)
        if log:
            log(row)

    try:
        yield write
    finally:
        appender.close()


@contextmanager
def silence() -> Iterator[Log]:
    """What processes other than the main one use."""
    yield lambda _: None
