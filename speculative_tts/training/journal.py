"""Keep a training's metrics.jsonl: rows of steps and of evaluations, each step once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from speculative_tts.records import Appender, read_jsonl, write_jsonl

METRICS = "metrics.jsonl"

Log = Callable[[dict[str, Any]], None]


def silent(row: dict[str, Any]) -> None:
    """Log nothing, in processes other than the main one."""


@contextmanager
def journal(folder: Path, last_step: int, track: Log = silent) -> Iterator[Log]:
    """Open the journal to append rows after `last_step`; each row also goes to `track` (wandb).

    Rows after `last_step` come from steps that a killed training did after its last saved state:
    they are dropped, because these steps are done again.
    """
    path = folder / METRICS
    if path.is_file():
        write_jsonl(path, [row for row in read_jsonl(path, "step") if row["step"] <= last_step])
    appender = Appender(path)

    def write(row: dict[str, Any]) -> None:
        appender.append(row)
        appender.sync()  # so that a saved state never has steps whose rows are lost
        track(row)

    try:
        yield write
    finally:
        appender.close()
