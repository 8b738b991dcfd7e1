"""Set drafts of one target side by side that were inherited from other layers of it.

    python scripts/draft_layers.py results/ssd_draft runs/ssd_draft

The folder holds scored runs on one list by drafts of several names (draft.name): each draft alone,
under the exact rule and with SSD's tolerances. Write draft_layers.md and .csv: a line a draft, and
below it the first draft minus each other one, paired by utterance.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from speculative_tts.assets import resolve
from speculative_tts.evaluation.compare import compare_rows
from speculative_tts.evaluation.registry import METRICS
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.statistics import Measure
from speculative_tts.evaluation.summary import Bootstrap, interval, read_scores
from speculative_tts.files import write_atomic
from speculative_tts.reporting import tables
from speculative_tts.reporting.captions import synthetic
from speculative_tts.reporting.origin import origin
from speculative_tts.reporting.runs import Run, find_runs
from speculative_tts.typed import read_json

NAME = "draft_layers"
FIRST = "ssd"  # the draft that others are subtracted from
ALONE, EXACT, SSD = "alone", "exact", "ssd_"
CAPTION = (
    "Brackets: 95 % intervals of the bootstrap over utterances, paired for differences. A step of "
    "a draft reads its layers and the head; nothing was timed."
)
DRAFT = tables.Heading("draft", "", "system")
HOW = Bootstrap()
Scores = Mapping[str, Sequence[ScoreRow]]  # by system
Figures = dict[str, tuple[Measure, int]]  # with their digits, by column


def system_of(run: Run) -> str | None:
    """Return what stands for a run's columns; None for a run of another kind."""
    if run.config["system"] == "draft":
        return ALONE
    if run.config.get("rule.name") == "tolerance":
        return f"{SSD}{run.config['rule.beta']:g}"
    return EXACT if run.config.get("rule.name") == "exact" else None


def drafts(runs: Iterable[Run]) -> dict[str, dict[str, Run]]:
    """Return the runs of every draft by system, `FIRST` first."""
    found: dict[str, dict[str, Run]] = {FIRST: {}}
    for run in runs:
        system = system_of(run)
        if system is not None and run.seed == 0:
            found.setdefault(str(run.config["draft.name"]), {})[system] = run
    return found


def shared_scores(found: Mapping[str, Mapping[str, Run]]) -> dict[str, dict[str, list[ScoreRow]]]:
    """Return the score rows of the utterances that every run has."""
    rows = {
        draft: {system: read_scores(run.folder) for system, run in of.items()}
        for draft, of in found.items()
    }
    ids = set.intersection(
        *({row.id for row in one} for of in rows.values() for one in of.values())
    )
    return {
        draft: {system: [row for row in one if row.id in ids] for system, one in of.items()}
        for draft, of in rows.items()
    }


def figures(of: Scores) -> Figures:
    """Return the figures of one draft."""
    measured: Figures = {}
    for system, rows in of.items():
        if system != ALONE:
            measured[f"{system}_length"] = interval(rows, METRICS["acceptance_length"], HOW), 2
        measured[f"{system}_wer"] = interval(rows, METRICS["wer"], HOW).scaled(100), 1
        if system.startswith(SSD):
            cost = compare_rows(of[EXACT], rows, "wer", HOW)
            measured[f"{system}_cost"] = cost.scaled(100), 1
    return measured


def differences(first: Scores, other: Scores) -> Figures:
    """Return `first` minus `other` in what both have."""
    measured: Figures = {}
    for system in (system for system in first if system in other):
        for name, metric, scale, digits in (
            ("length", "acceptance_length", 1, 2),
            ("wer", "wer", 100, 1),
        ):
            if (system, name) != (ALONE, "length"):
                row = compare_rows(other[system], first[system], metric, HOW)
                measured[f"{system}_{name}"] = row.scaled(scale), digits
    return measured


def headings(systems: Iterable[str]) -> list[tables.Heading]:
    """Return the columns of the systems."""
    of = {
        "length": "tokens a round",
        "wer": "WER %",
        "cost": "minus exact, points",
    }
    made = []
    for system in systems:
        names = {ALONE: ["wer"], EXACT: ["length", "wer"]}.get(system, list(of))
        label = system.replace(SSD, "SSD ")
        made += [tables.Heading(label, of[name], f"{system}_{name}") for name in names]
    return made


def layers(run: Run) -> str:
    """Say which layers a draft has of its target, which were trained, and for how many steps."""
    made = read_json(resolve(str(run.config["draft.path"])) / "inheritance.json", "train it again")
    trained = {name.split(".")[2] for name in made["trained"] if ".layers." in name}
    of = ", ".join(map(str, made["layers"]))
    which = "all" if len(trained) == len(made["layers"]) else f"the lower {len(trained)}"
    after = " after those of an earlier draft" if made["settings"]["init"] else ""
    return f"layers {of}, trained {which}, {made['settings']['steps']} steps{after}"


def line(label: str, row: Figures, columns: Sequence[tables.Heading], signed: bool) -> tables.Line:
    """Return a line; what was not measured stays empty, differences have their sign."""

    def cell(name: str) -> tables.Cell:
        if name not in row:
            return tables.Cell("")
        return tables.Cell.of(*row[name], signed=signed or name.endswith("cost"))

    return {DRAFT: tables.Cell(label)} | {one: cell(one.name) for one in columns}


def table(found: Mapping[str, Mapping[str, Run]]) -> tables.Table:
    """Return a line a draft, then the first minus each other."""
    scores = shared_scores(found)
    first, *others = scores
    systems = sorted(scores[first], key=lambda name: (name != ALONE, name))
    columns = headings(systems)
    lines = {
        name: line(f"{name}: {layers(found[name][ALONE])}", figures(scores[name]), columns, False)
        for name in scores
    }
    for name in others:
        row = differences(scores[first], scores[name])
        lines[f"minus_{name}"] = line(f"{first} minus {name}", row, columns, True)
    runs = [run for of in found.values() for run in of.values()]
    heard = len(scores[first][ALONE])
    return tables.Table(
        name=NAME,
        title="Drafts of one target by the layers they inherit",
        caption=(f"The {heard} utterances that all runs have. {CAPTION}",),
        origin=origin(runs),
        speech=synthetic(runs),
        blocks={"Drafts": lines},
        ruled=[f"minus_{name}" for name in others],
    )


def main(out: Path, *folders: Path) -> None:
    """Write the table."""
    found = drafts(run for folder in folders for run in find_runs(folder).runs)
    if len(found) < 2 or not all({ALONE, EXACT} <= of.keys() for of in found.values()):
        there = {name: sorted(of) for name, of in found.items()}
        sys.exit(f"scored are {there}; give folders of {FIRST} and another, each {ALONE}, {EXACT}")
    made = table(found)
    write_atomic(out / f"{NAME}.md", tables.markdown(made))
    write_atomic(out / f"{NAME}.csv", tables.comma_separated(made))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
