"""Keep the scores and records of scored runs, compressed, beside the tables that are of them.

    python scripts/keep_runs.py results/ssd runs/records/ssd   # as `make records` does

Every run of the folders gets a file in `scores` and one in `records`, whose bytes follow from the
rows alone; files of other runs are removed. Shipped assets are named as `tiny:testset`, files of
the working directory from there; any other absolute path is refused.
"""

import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from speculative_tts.assets import named
from speculative_tts.files import write_atomic
from speculative_tts.records import read_jsonl
from speculative_tts.reporting.runs import find_runs
from speculative_tts.runs.folder import RECORDS, SCORES

KINDS = {"scores": SCORES, "records": RECORDS}
ENDING = ".jsonl.gz"


def portable(row: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return a row without paths of this machine; raise ValueError if one is left."""
    here = f"{Path.cwd()}/"
    row = {
        name: named(value).removeprefix(here) if isinstance(value, str) else value
        for name, value in row.items()
    }
    for name, value in row.items():
        if isinstance(value, str) and Path(value).is_absolute():
            raise ValueError(f"{path}: {name}={value} is absolute; decode with relative paths")
    return row


def kept(folders: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    """Yield each file's name, such as `scores/target-s0-4a57dae7.jsonl.gz`, and its bytes."""
    for found in map(find_runs, folders):
        for name, why in found.unusable.items():
            raise ValueError(f"{found.folder}/{name}: {why}")
        for run in found.runs:
            for kind, file in KINDS.items():
                path = run.folder / file
                rows = (portable(row, path) for row in read_jsonl(path))
                text = "".join(json.dumps(row) + "\n" for row in rows)
                yield f"{kind}/{run.name}{ENDING}", gzip.compress(text.encode(), 9, mtime=0)


def keep(out: Path, folders: Sequence[Path]) -> list[Path]:
    """Write the files of all runs into `out`, remove those of other runs; return the written."""
    files = {out / name: data for name, data in kept(folders)}
    for path, data in files.items():
        write_atomic(path, data)
    for kind in KINDS:
        for path in {*(out / kind).glob(f"*{ENDING}")} - files.keys():
            path.unlink()
    return [*files]


def main() -> None:
    """Keep in the first folder the runs of the others."""
    out, *folders = map(Path, sys.argv[1:])
    written = keep(out, folders)
    size = sum(path.stat().st_size for path in written) / 1e6
    print(f"{out}: scores and records of {len(written) // len(KINDS)} runs, {size:.1f} MB")


if __name__ == "__main__":
    main()
