"""Compares this package's models and algorithms with golden files made by the official code.

Prints the worst difference of every case; exit code 1 when one is beyond its tolerance. Sizes and
vocabularies are read from the folder, so any folder in the golden format will do.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from speculative_tts.commands import app
from speculative_tts.schema import CheckConfig

if TYPE_CHECKING:
    from speculative_tts.checks.registry import Row

MISSED = 1
CASE_WIDTH = 52


def run(config: CheckConfig) -> int:
    """Run the check of a target, print its table, write it as JSON if asked to."""
    from speculative_tts.checks.registry import FormatError, load_check
    from speculative_tts.provenance import provenance
    from speculative_tts.records import write_json

    check, folder = load_check(config.target.name), Path(config.golden)
    if not folder.is_dir():
        raise FormatError(f"golden folder {folder} not found; give golden=<folder>")
    if config.out is not None:
        app.require_writable(Path(config.out).parent)
    rows: list[Row] = []
    for row in check(folder):
        print(_line(row) if rows else f"{_head()}\n{_line(row)}", flush=True)
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


def _head() -> str:
    return f"{'case':<{CASE_WIDTH}} {'worst':>9} {'allowed':>9}"


def _line(row: "Row") -> str:
    end = "" if row.passed else "  MISSED"
    return f"{row.case:<{CASE_WIDTH}} {row.worst:>9.2g} {row.tolerance:>9.2g}{end}"


def _json(row: "Row") -> dict[str, Any]:
    """A row as JSON values; null where shapes differ or the result is not a number."""
    worst = row.worst if math.isfinite(row.worst) else None
    return {
        "case": row.case,
        "worst": worst,
        "tolerance": row.tolerance,
        "passed": row.passed,
    }


main = app.command(
    "check",
    CheckConfig,
    run,
    examples=(
        "sst-check target=valle golden=goldens/valle",
        "sst-check target=speechtokenizer golden=goldens/speechtokenizer out=check.json",
    ),
    shorthand=(("target", "target.name"),),
)
