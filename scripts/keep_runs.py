"""Keep the scores and records of scored runs, compressed, beside the tables that are of them.

    python scripts/keep_runs.py results/ssd runs/records/ssd   # as `make records` does
    python scripts/keep_runs.py results/mtp runs/records/mtp scores=runs/records/more/mtp
    python scripts/keep_runs.py results/mtp results/mtp runs/new   # besides those that it has

The rows of every run of the folders go into two archives, `scores.jsonl.xz` and `records.jsonl.xz`
(`speculative_tts.runs.archive`); those of a folder after `scores=` into the first alone: scores
have the counts too, a quarter of the size, but no codes. A folder of runs may be one with archives.
Shipped assets are named as `tiny:testset`, files of the working directory from there; any other
absolute path is refused.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from speculative_tts.assets import named
from speculative_tts.records import read_jsonl
from speculative_tts.reporting.runs import find_runs
from speculative_tts.runs.archive import ENDING, Row, read_archive, write_archive
from speculative_tts.runs.folder import RECORDS, SCORES

KINDS = {"scores": SCORES, "records": RECORDS}
ALONE = "scores="  # before a folder whose codes are not kept


def archive(folder: Path, kind: str) -> Path:
    """Return the path of a folder's archive of scores or records."""
    return folder / f"{kind}{ENDING}"


def portable(row: Row, path: Path) -> Row:
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


def rows(folder: Path, kind: str) -> dict[str, list[Row]]:
    """Return the rows of a folder's runs, or of those in its archive, by the runs' names."""
    if (path := archive(folder, kind)).is_file():
        return read_archive(path)
    found = find_runs(folder)
    for name, why in found.unusable.items():
        raise ValueError(f"{folder}/{name}: {why}")
    paths = {run.name: run.folder / KINDS[kind] for run in found.runs}
    return {name: [portable(row, path) for row in read_jsonl(path)] for name, path in paths.items()}


def keep(out: Path, folders: Sequence[Path], scores_of: Sequence[Path] = ()) -> dict[Path, int]:
    """Write the archives of `out`, which then have these runs alone; return their numbers of runs.

    An archive without runs is removed.
    """
    sources = {"scores": [*folders, *scores_of], "records": folders}
    runs = {
        archive(out, kind): {name: of for one in of_kind for name, of in rows(one, kind).items()}
        for kind, of_kind in sources.items()
    }
    for path, of in runs.items():
        if of:
            write_archive(path, of)
        else:
            path.unlink(missing_ok=True)
    return {path: len(of) for path, of in runs.items()}


def main() -> None:
    """Keep in the first folder the runs of the others."""
    out, *folders = sys.argv[1:]
    whole = [Path(one) for one in folders if not one.startswith(ALONE)]
    scores_of = [Path(one.removeprefix(ALONE)) for one in folders if one.startswith(ALONE)]
    for path, count in keep(Path(out), whole, scores_of).items():
        if count:
            print(f"{path}: {count} runs, {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
