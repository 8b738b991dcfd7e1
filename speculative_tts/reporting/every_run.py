"""Every scored run a row: the report of a sweep that is no paper's."""

from collections import Counter
from collections.abc import Sequence

from speculative_tts.reporting.captions import sampler_text
from speculative_tts.reporting.definitions import Column, Panel, Report, Row, TableDefinition
from speculative_tts.reporting.needs import Chosen
from speculative_tts.reporting.runs import Run, measured

NAME = "runs"
PARTS = ("target", "data", "sampler")  # in which runs of one table should not differ
SHOWN = "acceptance_length speedup time_per_token_ms lm_rtf wer cer similarity utmos|dnsmos"


def report(runs: Sequence[Run]) -> tuple[Report, Chosen]:
    """Return a report with one table that has these runs as rows, and their results.

    Word errors are compared with the target alone where exactly one run is of it, and where target,
    list and sampler are its own.
    """
    alone = [run for run in runs if run.config.get("system") == "target"]
    quantities = (measured(name, runs) for name in SHOWN.split())
    own = [
        Column(name)
        for name in quantities
        if any(one.measure(name).value is not None for one in runs)
    ]
    words = [Column("wer", against=alone[0].name)] if len(alone) == 1 and len(runs) > 1 else []
    table = TableDefinition(
        name="runs",
        title="Every scored run",
        rows={
            run.name: Row(label, run.config, compared=all(_alike(run, one) for one in alone))
            for label, run in _labelled(runs).items()
        },
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
    """Return runs by name and by the target, list and sampler in which they differ.

    The name's signature is left out where what remains differs.
    """
    kinds = {run.name: _kind(run) for run in runs}
    differing = [part for part in PARTS if len({kind[part] for kind in kinds.values()} - {""}) > 1]

    def named(run: Run, name: str) -> str:
        return ", ".join([name, *filter(None, (kinds[run.name][part] for part in differing))])

    short = {run.name: named(run, run.name.rpartition("-")[0] or run.name) for run in runs}
    times = Counter(short.values())
    return {
        short[run.name] if times[short[run.name]] == 1 else named(run, run.name): run
        for run in runs
    }


def _kind(run: Run) -> dict[str, str]:
    """Return what makes runs unlike, in words; empty of what a run does not read."""
    given = {part: run.config.get(f"{part}.name") for part in PARTS[:2]}
    named = {part: f"{part}={name}" if name else "" for part, name in given.items()}
    return {**named, PARTS[2]: sampler_text(run.config)}


def _alike(one: Run, other: Run) -> bool:
    """Return True if two runs do not differ in target, list or sampler."""
    mine, its = _kind(one), _kind(other)
    return all(mine[part] == its[part] or "" in (mine[part], its[part]) for part in PARTS)
