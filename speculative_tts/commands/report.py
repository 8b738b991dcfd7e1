"""Makes a paper's tables and figures from scored runs, each beside the paper's own figures.

Writes Markdown, CSV, LaTeX, plots and a page with audio. What lacks a run is named together with
the command that makes it. One page has all papers: each call renews its own part.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from speculative_tts.commands import app
from speculative_tts.schema.evaluate import ReportConfig
from speculative_tts.texts import first

STRICT_FAILURE = 3


def run(config: ReportConfig) -> int:
    """Write what the runs at hand allow; return 3 with `strict` if a run is missing."""
    from speculative_tts.files import held, write_atomic
    from speculative_tts.reporting.every_run import NAME
    from speculative_tts.reporting.page import page
    from speculative_tts.reporting.runs import find_runs
    from speculative_tts.reporting.shown import reports
    from speculative_tts.reporting.write import write_every_run, write_foreign, write_report

    chosen = [] if config.paper == NAME else reports(config.paper)
    found = find_runs(Path(config.runs))
    out = app.require_writable(config.out)
    for line in first([f"{name} left out: {why}" for name, why in found.unusable.items()]):
        print(line, file=sys.stderr)
    written = [write_report(name, found, out) for name in chosen]
    if found.runs and not any(one.files for one in written):
        written.append(write_every_run(found, out))
    if found.foreign:
        written.append(write_foreign(found, out))
    _count_left_out(config, len(found.runs), {name for one in written for name in one.runs})
    missing = [line for one in written for line in one.missing]
    for line in first(dict.fromkeys(line for one in written for line in one.remarks)):
        print(line, file=sys.stderr)
    _say_missing(missing, strict=config.strict)
    files = [file for one in written for file in one.files]
    if not files:
        raise ValueError(
            f"runs={config.runs} has no scored run for paper={config.paper}"
            + "; ".join(["", *missing[:1]])
        )
    if config.page:
        files.append(out / "index.html")
        with held(out):  # so that two reports at once do not overwrite each other's part
            write_atomic(files[-1], page([one.section for one in written if one.files], files[-1]))
    print("\n".join(map(str, files)), flush=True)
    if config.page:  # the last line on a screen
        print(f"open {files[-1]} in a browser", file=sys.stderr)
    return STRICT_FAILURE if config.strict and missing else 0


def _say_missing(missing: Sequence[str], *, strict: bool) -> None:
    """Name each table and figure that lacks a run, with the command that fills it.

    Unless `strict`, one line stands for several: whoever ran a sweep of their own wants no paper's.
    """
    shown = [f"missing: {line}" for line in missing]
    if len(missing) > 1 and not strict:
        names = ", ".join(line.partition(":")[0] for line in missing)
        shown = [f"missing: runs of {names}; strict=true says what makes them"]
    for line in shown:
        print(line, file=sys.stderr)


def _count_left_out(config: ReportConfig, runs: int, shown: set[str]) -> None:
    """Say in one line how many scored runs no table shows."""
    if left := runs - len(shown):
        print(
            f"{left} of {runs} scored runs are in no table of paper={config.paper}; "
            f"`sst-report paper=runs runs={config.runs}` shows every run",
            file=sys.stderr,
        )


main = app.command(
    "report",
    ReportConfig,
    run,
    examples=("sst-report", "sst-report paper=ssd runs=runs/ssd out=runs/tables strict=true"),
)

if __name__ == "__main__":
    sys.exit(main())
