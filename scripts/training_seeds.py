"""Ask how much of a drafter's figures is its training seed's.

    python scripts/training_seeds.py results/sentences runs/sentences/ssd runs/sentences/seeds

The folders hold scored runs on one list by drafts, and by recurrent layers, of several training
seeds. Their folders end with kind and seed: draft-seed1, recurrent-seed1; of the fine target
paper-seed0, ssd-seed0 (the draft of sentences that ships is of seed 0). Drafts speak alone; all are
decoded under the exact rule and by one or more settings of SSD and PCG. Write training_seeds.md and
.csv: a line a seed and their mean, then the standard deviation over the training seeds and, beside
it, over draws of the utterances. Groups stand beside the tolerance whose rounds are nearest to
theirs in length.
"""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

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

NAME = "training_seeds"
ALONE, EXACT, SSD, PCG = "alone", "exact", "ssd_", "pcg_"
SHIPPED = "tiny:draft_sentences"  # of seed 0
KINDS = {
    "draft": "Drafts",
    "recurrent": "Recurrent layers of 400 steps on 320 sequences, not the layer that ships",
    "paper": "Layers 0, 12 and 23, all trained",
    "ssd": "SSD's own draft: layers 0, 1 and 18 to 23, the lower two and the head trained",
}
TRAINED = re.compile(rf"({'|'.join(KINDS)})-seed(\d+)$")
INTERVAL = 2 * 1.96  # standard deviations that a 95 % interval is wide
SEED = tables.Heading("training seed", "", "system")
HOW = Bootstrap()
LEAST = 2  # seeds with a standard deviation
CAPTION = (
    "Brackets: 95 % intervals of the bootstrap over utterances, paired for differences; those of "
    "the mean draw utterances for all seeds at once. The training seed draws sequences, their "
    "order and a layer's weights (a draft's are inherited); list and decoder's seed are one. A "
    "standard deviation of three seeds is itself known within a factor of 0.5 to 6."
)
Seeds = dict[int, dict[str, Run]]  # runs of a training seed by system
Scores = Mapping[str, Sequence[ScoreRow]]  # by system
Figures = dict[str, tuple[Measure, int]]  # with their digits, by column


def seeds(runs: Iterable[Run]) -> dict[str, Seeds]:
    """Return each kind's runs by training seed, in the systems that all its seeds have.

    A seed without the exact rule or without any tolerance is left out.
    """
    found: dict[str, Seeds] = {kind: {} for kind in KINDS}
    for run in runs:
        of = "drafter" if run.config.get("drafter.name") == "recurrent" else "draft"
        path = str(run.config.get(f"{of}.path")).replace(SHIPPED, "draft-seed0")
        trained, system = TRAINED.search(path), system_of(run)
        if trained and system and run.seed == 0:
            found[trained[1]].setdefault(int(trained[2]), {})[system] = run
    return {kind: _whole(of) for kind, of in found.items()}


def _whole(found: Seeds) -> Seeds:
    """Return the seeds that have the least, each with the systems that all of them have."""
    whole = {
        seed: of
        for seed, of in sorted(found.items())
        if EXACT in of and any(name.startswith(SSD) for name in of)
    }
    shared = set.intersection(*map(set, whole.values())) if whole else set()
    return {
        seed: {name: of[name] for name in sorted(shared, key=_place)} for seed, of in whole.items()
    }


def _place(system: str) -> tuple[int, float]:
    """Return where a system stands in a line."""
    kind = [ALONE, EXACT, SSD, PCG].index(re.sub(r"[\d.]+$", "", system))
    return kind, float(system.partition("_")[2] or 0)


def system_of(run: Run) -> str | None:
    """Return what stands for a run's columns; None for a run of another kind."""
    if run.config["system"] == "draft":
        return ALONE
    rule = run.config.get("rule.name")
    if rule == "tolerance":
        return f"{SSD}{run.config['rule.beta']:g}"
    if rule == "group":
        return f"{PCG}{run.config['rule.groups.mean_size']:g}"
    return EXACT if rule == "exact" else None


def scores(found: Mapping[str, Seeds]) -> dict[str, dict[int, dict[str, list[ScoreRow]]]]:
    """Return the score rows of the utterances that every run has."""
    rows = {
        kind: {
            seed: {system: read_scores(run.folder) for system, run in of.items()}
            for seed, of in kinds.items()
        }
        for kind, kinds in found.items()
    }
    every = [own for kinds in rows.values() for of in kinds.values() for own in of.values()]
    shared = set.intersection(*({row.id for row in own} for own in every))
    for own in every:
        own[:] = [row for row in own if row.id in shared]
    return rows


def figures(of: Scores, beside: Mapping[str, str]) -> Figures:
    """Return the figures of one seed, or of several at once; `beside` is of `equally_long`."""
    measured: Figures = {}
    for system, rows in of.items():
        if system != ALONE:
            measured[f"{system}_length"] = interval(rows, METRICS["acceptance_length"], HOW), 2
        measured[f"{system}_wer"] = interval(rows, METRICS["wer"], HOW).scaled(100), 1
        if system not in (ALONE, EXACT):
            measured[f"{system}_cost"] = minus(rows, of[EXACT]), 1
        if system in beside:
            measured[f"{system}_gain"] = minus(rows, of[beside[system]]), 1
    return measured


def minus(rows: Sequence[ScoreRow], others: Sequence[ScoreRow]) -> Measure:
    """Return the word errors of `rows` minus those of `others`, in points."""
    return compare_rows(others, rows, "wer", HOW).scaled(100)


def equally_long(of: Scores) -> dict[str, str]:
    """Return the tolerance whose rounds are nearest in length to each group size's."""
    length = {
        name: interval(rows, METRICS["acceptance_length"], Bootstrap(draws=0)).value or 0.0
        for name, rows in of.items()
        if name.startswith((SSD, PCG))
    }
    tolerances = [name for name in length if name.startswith(SSD)]
    return {
        name: min(tolerances, key=lambda one: abs(length[one] - length[name]))
        for name in length
        if name.startswith(PCG)
    }


def over_seeds(measures: Sequence[Measure]) -> float:
    """Return the standard deviation of a figure over training seeds."""
    return stdev(one.value or 0.0 for one in measures)


def over_utterances(measures: Sequence[Measure]) -> float:
    """Return the standard deviation that draws of the utterances give one seed's figure."""
    return fmean(((one.high or 0.0) - (one.low or 0.0)) / INTERVAL for one in measures)


def pooled(found: Mapping[int, Scores]) -> dict[str, list[ScoreRow]]:
    """Return the rows of all seeds, which count as seeds of one system."""
    systems = next(iter(found.values()))
    return {
        system: [replace(row, seed=seed) for seed, of in found.items() for row in of[system]]
        for system in systems
    }


def block(kind: str, found: Mapping[int, Scores]) -> tables.Block:
    """Return a line a training seed, their mean, and the two standard deviations."""
    together = pooled(found)
    beside = equally_long(together)
    rows = {seed: figures(of, beside) for seed, of in found.items()}
    mean = figures(together, beside)
    headings = [heading(name, beside) for name in mean]

    def line(label: str, cells: Iterable[tables.Cell]) -> tables.Line:
        return {SEED: tables.Cell(label)} | dict(zip(headings, cells, strict=True))

    lines = {f"{kind}{seed}": line(f"seed {seed}", cells(row)) for seed, row in rows.items()}
    lines[f"{kind}_mean"] = line("mean of the seeds", cells(mean))
    for key, label, deviation in (
        ("seeds", "standard deviation over training seeds", over_seeds),
        ("utterances", "standard deviation over utterances", over_utterances),
    ):
        spread = (
            tables.Cell.of(Measure(deviation([row[name][0] for row in rows.values()])))
            for name in mean
        )
        lines[f"{kind}_{key}"] = line(label, spread)
    return lines


def cells(row: Figures) -> list[tables.Cell]:
    """Return a line's cells; differences have their sign."""
    return [
        tables.Cell.of(measure, digits, signed=name.endswith(("_cost", "_gain")))
        for name, (measure, digits) in row.items()
    ]


def heading(name: str, beside: Mapping[str, str]) -> tables.Heading:
    """Return a column's heading."""
    system, _, figure = name.rpartition("_")
    below = {
        "length": "tokens a round",
        "wer": "WER %",
        "cost": "minus exact, points",
        "gain": f"minus {said(beside.get(system, ''))}, points",
    }
    return tables.Heading(said(system), below[figure], name)


def said(system: str) -> str:
    """Return the name of a system."""
    return system.replace(SSD, "SSD ").replace(PCG, "PCG ")


def main(out: Path, *folders: Path) -> None:
    """Write the table."""
    runs = [run for folder in folders for run in find_runs(folder).runs]
    found = {kind: of for kind, of in seeds(runs).items() if len(of) >= LEAST}
    if not found:
        there = ", ".join(map(str, folders))
        sys.exit(f"{there}: no kind has {LEAST} training seeds with all their systems scored")
    rows = scores(found)
    heard = len(next(iter(next(iter(rows.values())).values()))[EXACT])
    runs = [run for of in found.values() for one in of.values() for run in one.values()]
    table = tables.Table(
        name=NAME,
        title="What is the training seed's",
        caption=(f"The {heard} utterances that all runs have. {CAPTION}",),
        origin=origin(runs),
        speech=synthetic(runs),
        blocks={KINDS[kind]: block(kind, of) for kind, of in rows.items()},
        ruled=[f"{kind}_seeds" for kind in rows],
    )
    write_atomic(out / f"{NAME}.md", tables.markdown(table))
    write_atomic(out / f"{NAME}.csv", tables.comma_separated(table))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
