"""Compare runs of one list on a GPU and on a CPU.

    python scripts/gpu_table.py runs/gpu/decode results/bench

The first folder has the runs of `scripts/gpu_first.sh`: `gpu` and `cpu` are timed, `float32` on the
GPU is not and should have the CPU's tokens. Write gpu_decode.md and gpu_decode.json.
"""

import sys
from pathlib import Path
from typing import Any

from speculative_tts.bench.figures import grid
from speculative_tts.files import write_atomic
from speculative_tts.records import DecodeRecord
from speculative_tts.reporting.origin import made_by
from speculative_tts.runs.folder import is_done, label_and_signature, read_provenance, read_records
from speculative_tts.typed import write_json

HEADINGS = (
    "system", "GPU, tokens/s", "CPU, tokens/s", "GPU, times the target alone",
    "CPU, times the target alone", "same tokens in float32",
)  # fmt: skip


def runs_in(folder: Path) -> dict[str, Path]:
    """Return the finished runs of a folder by what they are called, without their signatures."""
    found = sorted(path for path in folder.glob("*") if path.is_dir() and is_done(path))
    return {label_and_signature(path.name)[0]: path for path in found}


def speeds(run: Path) -> tuple[float, float | None] | None:
    """Return tokens a second and how many times those of the target alone; None if not timed."""
    timed = [one for one in read_records(run).values() if one.lm_seconds]
    if not timed:
        return None
    own = sum(one.tokens for one in timed) / sum(one.lm_seconds or 0.0 for one in timed)
    beside = [one for one in timed if one.baseline_seconds and one.baseline_tokens]
    if not beside:
        return own, None
    seconds = sum(one.baseline_seconds or 0.0 for one in beside)
    return own, own / (sum(one.baseline_tokens or 0 for one in beside) / seconds)


def same_tokens(run: Path, other: Path) -> tuple[int, int]:
    """Return how many utterances have the same codes, of those that both runs decoded."""
    one, two = read_records(run), read_records(other)
    both = one.keys() & two.keys()

    def said(record: DecodeRecord) -> tuple[list[int], int]:
        return record.codes, record.tokens

    return sum(said(one[id_]) == said(two[id_]) for id_ in both), len(both)


def measured(folder: Path) -> list[dict[str, Any]]:
    """Return a row for each system that was timed on the GPU."""
    gpu, cpu, exact = (runs_in(folder / name) for name in ("gpu", "cpu", "float32"))
    rows = []
    for label, run in gpu.items():
        own, other = speeds(run), speeds(cpu[label]) if label in cpu else None
        alike = same_tokens(exact[label], cpu[label]) if label in exact and label in cpu else None
        rows.append({"system": label, "gpu": own, "cpu": other, "same_tokens": alike})
    return rows


def cells(row: dict[str, Any]) -> list[object]:
    """Return a row of the table; nothing where something was not measured."""
    gpu, cpu = row["gpu"] or (None, None), row["cpu"] or (None, None)
    numbers = [f"{one[0]:,.0f}" if one[0] else "" for one in (gpu, cpu)]
    times = [f"{one[1]:.2f}" if one[1] else "" for one in (gpu, cpu)]
    alike = "" if row["same_tokens"] is None else "{} of {}".format(*row["same_tokens"])
    return [row["system"], *numbers, *times, alike]


def main(folder: Path, out: Path) -> None:
    """Write both files; ValueError where no system was decoded on the GPU."""
    rows, runs = measured(folder), runs_in(folder / "gpu")
    if not rows:
        raise ValueError(f"{folder / 'gpu'} has no finished run; make them with `make gpu`")
    lines = [*grid(HEADINGS, [cells(row) for row in rows]), ""]
    lines += ["GPU in bfloat16, CPU in float32 with one thread; one process, prefill included."]
    lines += ["", made_by(read_provenance(next(iter(runs.values()))))]
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / "gpu_decode.md", "\n".join(lines) + "\n")
    write_json(out / "gpu_decode.json", {"rows": rows})
    print("\n".join(lines))


if __name__ == "__main__":
    try:
        main(*map(Path, sys.argv[1:3]))
    except ValueError as error:
        sys.exit(str(error))
