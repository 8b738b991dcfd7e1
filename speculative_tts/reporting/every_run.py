"""Every scored run a row: the report of a sweep that is no paper's."""

from collections import Counter
from collections.abc import Sequence

from speculative_tts.reporting.definitions import Column, Panel, Report, Row, TableDefinition
from speculative_tts.reporting.needs import Chosen
from speculative_tts.reporting.runs import Run, measured

NAME = "runs"
SHOWN = "acceptance_length speedup time_per_token_ms lm_rtf wer cer similarity utmos|dnsmos"


def report(runs: Sequence[Run]) -> tuple[Report, Chosen]:
    """Return a report with one table that has these runs as rows, and their results.

    Word errors are compared with the target alone where exactly one run is of it.
    """
    alone = [run.name for run in runs if run.config.get("system") == "target"]
    quantities = (measured(name, runs) for name in SHOWN.split())
    own = [
        Column(name)
        for name in quantities
        if any(one.measure(name).value is not None for one in runs)
    ]
    words = [Column("wer", against=alone[0])] if len(alone) == 1 and len(runs) > 1 else []
    table = TableDefinition(
        name="runs",
        title="Every scored run",
        rows={run.name: Row(label, run.config) for label, run in _labelled(runs).items()},
        panels=(Panel("Speed and words", [*own, *words]),),
    )
    made = Report(
        name=NAME,
        title="Every run",
        introduction="Each scored run of the folder, whether or not a paper's table shows it.",
        tables=(table,),
        listening=table.name,
        contrast=(runs[0].name, runs[-1].name),
    )
    return made, Chosen({run.name: (run,) for run in runs})


def _labelled(runs: Sequence[Run]) -> dict[str, Run]:
    """Return runs by name, without its signature where that leaves names that differ."""
    short = Counter(run.name.rpartition("-")[0] for run in runs)
    return {
        own if own and short[own] == 1 else run.name: run
        for run, own in ((run, run.name.rpartition("-")[0]) for run in runs)
    }
