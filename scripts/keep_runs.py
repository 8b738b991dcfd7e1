"""Keep the scores and records of scored runs, compressed, beside the tables that are of them.

    python scripts/keep_runs.py results/ssd runs/records/ssd   # as `make records` does
    python scripts/keep_runs.py results/mtp runs/records/mtp scores=runs/records/more/mtp

Every run of the folders gets a file in `scores` and one in `records`, whose bytes follow from the
rows alone, those of a folder after `scores=` the first alone: scores have the counts too, a quarter
of the size, but no codes. Files of other runs are removed. Shipped assets are named as
`tiny:testset`, files of the working directory from there; any other absolute path is refused.
"""

import gzip
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from speculative_tts.assets import named
from speculative_tts.files import write_atomic
from speculative_tts.records import read_jsonl
from speculative_tts.reporting.runs import find_runs
from speculative_tts.runs.folder import RECORDS, SCORES

KINDS = {"scores": SCORES, "records": RECORDS}
ENDING = ".jsonl.gz"
ALONE = "scores="  # before a folder whose codes are not kept


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


def kept(folder: Path, kinds: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield each file's name, such as `scores/target-s0-4a57dae7.jsonl.gz`, and its bytes."""
    found = find_runs(folder)
    for name, why in found.unusable.items():
        raise ValueError(f"{folder}/{name}: {why}")
    for run in found.runs:
        for kind in kinds:
            path = run.folder / KINDS[kind]
            rows = (portable(row, path) for row in read_jsonl(path))
            text = "".join(json.dumps(row) + "\n" for row in rows)
            yield f"{kind}/{run.name}{ENDING}", gzip.compress(text.encode(), 9, mtime=0)


def keep(out: Path, folders: Sequence[Path], scores_of: Sequence[Path] = ()) -> list[Path]:
    """Write the files of all runs into `out`, remove those of other runs; return the written."""
    asked = [(one, [*KINDS]) for one in folders] + [(one, ["scores"]) for one in scores_of]
    files = {out / name: data for one, kinds in asked for name, data in kept(one, kinds)}
    for path, data in files.items():
        write_atomic(path, data)
    for kind in KINDS:
        for path in {*(out / kind).glob(f"*{ENDING}")} - files.keys():
            path.unlink()
    return [*files]


def main() -> None:
    """Keep in the first folder the runs of the others."""
    out, *folders = sys.argv[1:]
    whole = [Path(one) for one in folders if not one.startswith(ALONE)]
    scores_of = [Path(one.removeprefix(ALONE)) for one in folders if one.startswith(ALONE)]
    written = keep(Path(out), whole, scores_of)
    size = sum(path.stat().st_size for path in written) / 1e6
    count = len({path.name for path in written})
    print(f"{out}: scores of {count} runs and records of {len(written) - count}, {size:.1f} MB")


if __name__ == "__main__":
    main()
