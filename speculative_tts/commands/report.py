"""Makes a paper's tables and figures from scored runs, each beside the paper's own figures.

Writes Markdown, CSV, LaTeX, plots and a page with audio. What lacks a run is named together with
the command that makes it. One page has all papers: each call renews its own part.
"""

import sys
from pathlib import Path

from speculative_tts.commands import app
from speculative_tts.schema.evaluate import ReportConfig

STRICT_FAILURE = 3


def run(config: ReportConfig) -> int:
    """Write what the runs at hand allow; return 3 with `strict` if a run is missing."""
    from speculative_tts.files import held, write_atomic
    from speculative_tts.reporting.page import page
    from speculative_tts.reporting.runs import find_runs
    from speculative_tts.reporting.shown import reports
    from speculative_tts.reporting.write import write_foreign, write_report

    chosen = reports(config.paper)
    found = find_runs(Path(config.runs))
    out = app.require_writable(config.out)
    for name, why in found.unusable.items():
        print(f"{name} left out: {why}", file=sys.stderr)
    written = [write_report(name, found, out) for name in chosen]
    if found.foreign:
        written.append(write_foreign(found, out))
    missing = [line for one in written for line in one.missing]
    for line in dict.fromkeys([*(line for one in written for line in one.remarks)]):
        print(line, file=sys.stderr)
    for line in missing:
        print(f"missing: {line}", file=sys.stderr)
    files = [file for one in written for file in one.files]
    if not files:
        raise ValueError(
            f"runs={config.runs} has no scored run for paper={config.paper}; {missing[0]}"
        )
    if config.page:
        files.append(out / "index.html")
        with held(out):  # so that two reports at once do not overwrite each other's part
            write_atomic(files[-1], page([one.section for one in written], files[-1]))
    print("\n".join(map(str, files)))
    return STRICT_FAILURE if config.strict and missing else 0


main = app.command(
    "report",
    ReportConfig,
    run,
    examples=("sst-report", "sst-report paper=ssd runs=runs/ssd out=runs/tables strict=true"),
)

if __name__ == "__main__":
    sys.exit(main())
