"""Archives: the rows of many runs in one compressed file, such as `results/ssd/scores.jsonl.xz`.

A line is a row of a run's `scores.jsonl` or `records.jsonl` after the key `run`, the run's name.
Runs of one list share texts, prompts and the beginnings of codes: in one stream they take 40 % of
the bytes that a file each takes.
"""

import lzma
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from speculative_tts.files import write_atomic
from speculative_tts.typed import json_object, json_text

ENDING = ".jsonl.xz"
RUN = "run"
Row = dict[str, Any]


def write_archive(path: Path, runs: Mapping[str, Iterable[Row]]) -> None:
    """Write the rows of runs, sorted by the runs' names; the same rows give the same bytes."""
    rows = ({RUN: name} | row for name in sorted(runs) for row in runs[name])
    text = "".join(json_text(row, path) + "\n" for row in rows)
    write_atomic(path, lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def read_archive(path: Path) -> dict[str, list[Row]]:
    """Return the rows of each run by its name; ValueError for a file that is no archive."""
    remedy = "get the archive again"
    try:
        lines = lzma.decompress(path.read_bytes()).splitlines()
    except lzma.LZMAError as error:
        raise ValueError(f"{path} cannot be unpacked ({error}); {remedy}") from error
    runs: dict[str, list[Row]] = {}
    for number, line in enumerate(lines, start=1):
        row = json_object(line, where := f"{path}:{number}", remedy)
        if RUN not in row:
            raise ValueError(f"{where}: {RUN} is missing; {remedy}")
        runs.setdefault(row.pop(RUN), []).append(row)
    return runs
