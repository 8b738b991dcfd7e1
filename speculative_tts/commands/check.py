"""Compares this package's models and algorithms with golden files made by the official code.

Prints the worst difference of every case; exit code 1 when one is beyond its tolerance. Sizes and
vocabularies are read from the folder, so any folder in the golden format will do.
`sst-check judges` tells which judges can run here; `sst-check paper` what the papers' experiments
lack and about how many GPU hours they take; both name the command for what is missing, exit code 1.
`sst-check folder=models/mine` says what a checkpoint is, which configuration it takes and what it
lacks.
"""

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from speculative_tts.commands import app
from speculative_tts.files import check_place
from speculative_tts.schema.evaluate import CheckConfig, Checked

if TYPE_CHECKING:
    from speculative_tts.checks.registry import CheckRow

MISSED = 1
CASE_WIDTH = 52
HEAD = f"{'case':<{CASE_WIDTH}} {'worst':>9} {'allowed':>9}"


def run(config: CheckConfig) -> int:
    """Run a check, print its table; for golden files write it as JSON if asked to."""
    if config.folder is not None:
        return _folder(Path(config.folder))
    return _golden(config) if config.what is Checked.golden else _machine(config)


def _folder(folder: Path) -> int:
    """Say what a checkpoint is, the configuration to write for it, and what it lacks."""
    from speculative_tts.checks.folder import describe, said

    found = describe(folder)
    print("\n".join(said(found)))
    return MISSED if found.missing else 0


def _machine(config: CheckConfig) -> int:
    from speculative_tts.preflight.judges import judges, presets_of
    from speculative_tts.preflight.paper import paper
    from speculative_tts.preflight.table import lines, missing

    whole = config.what is Checked.paper
    if whole:
        found = paper(config)
    else:
        found = judges(str(Path(config.models) / "judges"), presets_of(config))
    print("\n".join(lines(found)), flush=True)
    absent = missing(found)
    print(f"{len(found) - len(absent)} of {len(found)} are here")
    if whole and config.probe:
        _hours(config)
    return MISSED if absent else 0


def _hours(config: CheckConfig) -> None:
    """Print the hours that the experiments would take, by a probe or by a given pass time."""
    import torch

    from speculative_tts.costs.hours import BATCH, JOBS, LEFT_OUT, counted, estimate

    device, dtype, given = torch.device("cuda"), torch.bfloat16, config.step_ms
    if given is None and not torch.cuda.is_available():
        print(
            "GPU hours are measured by a probe: run this on the machine with the GPU, or give "
            "step_ms=<milliseconds of a pass>"
        )
        return
    where = f"at {given:g} ms a pass" if given else f"on {torch.cuda.get_device_name(device)}"
    print(f"Decoding {where}, from single passes; not in it: {LEFT_OUT}:")
    for job in (job for job in JOBS if not config.only or job.paper in config.only):
        one = counted(job, given, given) if given else estimate(job, device, dtype)
        alone, together = one.milliseconds
        print(
            f"  {job.paper.name.upper()}: {job.runs} runs of {job.utterances} utterances, "
            f"{job.alone:,.0f} passes of one row ({alone:.1f} ms) and {job.together:,.0f} of "
            f"{BATCH} ({together:.1f} ms): {one.hours:,.1f} h on one GPU, "
            f"{one.hours / 4:,.1f} on 4, {one.hours / 8:,.1f} on 8"
        )


def _golden(config: CheckConfig) -> int:
    """Run the check of a target, print its table, write it as JSON if asked to."""
    from speculative_tts.checks.kinds import require_kind
    from speculative_tts.checks.registry import FormatError, load_check
    from speculative_tts.provenance import provenance
    from speculative_tts.typed import write_json

    for key, value in {"target.name": config.target.name, "golden": config.golden}.items():
        if value is None:
            raise FormatError(
                f"{key} is not set; give {key}=<value> to compare with golden files, or say "
                "sst-check folder=<checkpoint>, sst-check judges or sst-check paper (see "
                "sst-check --help)"
            )
    check, folder = load_check(str(config.target.name)), Path(str(config.golden))
    if not folder.is_dir():
        raise FormatError(f"golden folder {folder} not found; give golden=<folder>")
    require_kind(folder, str(config.target.name))
    if config.out is not None:
        check_place(Path(config.out))
    rows: list[CheckRow] = []
    for row in check(folder):
        print(_line(row) if rows else f"{HEAD}\n{_line(row)}", flush=True)
        rows.append(row)
    if not rows:
        raise FormatError(f"{folder} holds no case; give a folder in the golden format")
    missed = [row.case for row in rows if not row.passed]
    print(f"{len(rows) - len(missed)} of {len(rows)} cases within their tolerance")
    if config.out is not None:
        content = {
            "target": config.target.name,
            "passed": not missed,
            "cases": [_json(row) for row in rows],
            "provenance": provenance(config),
        }
        write_json(Path(config.out), content)
    return MISSED if missed else 0


def _line(row: "CheckRow") -> str:
    end = "" if row.passed else "  MISSED"
    return f"{row.case:<{CASE_WIDTH}} {row.worst:>9.2g} {row.tolerance:>9.2g}{end}"


def _json(row: "CheckRow") -> dict[str, Any]:
    """Return a row as JSON values; null if shapes differ or the result is not a number."""
    worst = row.worst if math.isfinite(row.worst) else None
    return {"case": row.case, "worst": worst, "tolerance": row.tolerance, "passed": row.passed}


main = app.command(
    "check",
    CheckConfig,
    run,
    examples=(
        "sst-check target=valle golden=goldens/valle",
        "sst-check target=speechtokenizer golden=goldens/speechtokenizer out=check.json",
        "sst-check folder=models/mine",
        "sst-check judges models=models",
        "sst-check paper models=models",
        "sst-check paper only=[ssd,pcg] scoring=false",
    ),
    first=(
        *("golden", "folder", "out", "models", "only"),
        *("scoring", "device", "preset", "probe", "step_ms"),
    ),
    shorthand=(("target", "target.name"), ("judges", "what=judges"), ("paper", "what=paper")),
)

if __name__ == "__main__":
    sys.exit(main())
