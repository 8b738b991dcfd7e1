"""Ask how much of a drafter's figures is its training seed's.

    python scripts/training_seeds.py results/sentences runs/sentences/ssd runs/sentences/seeds

The folders hold scored runs by drafts, and by recurrent layers, of several training seeds, which
their folders end with (draft-seed1, recurrent-seed1; the draft that ships is of seed 0): each draft
alone, under the exact rule and under SSD's, on one list. Write training_seeds.md and .csv: a line a
seed, then the standard deviation over the training seeds and, beside it, over draws of the
utterances.
"""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
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
from speculative_tts.reporting.experiments import method
from speculative_tts.reporting.origin import origin
from speculative_tts.reporting.results import difference
from speculative_tts.reporting.runs import Run, find_runs

NAME = "training_seeds"
ALONE, EXACT, SSD = "alone", "exact", "ssd"
SHIPPED = "tiny:draft_sentences"  # of seed 0
KINDS = {"lm": "Drafts", "recurrent": "Recurrent layers"}
INTERVAL = 2 * 1.96  # standard deviations that a 95 % interval is wide
HOW = Bootstrap()
LEAST = 2  # seeds with a standard deviation
CAPTION = (
    "Brackets: 95 % intervals of the bootstrap over utterances, paired for differences. The "
    "training seed draws sequences, their order and a layer's weights (a draft's are inherited); "
    "list and decoder's seed are one. A standard deviation of three seeds is itself known within a "
    "factor of 0.5 to 6."
)
HEADINGS = {
    "alone_wer": ("alone", "WER %"),
    "exact_length": ("exact", "tokens a round"),
    "exact_wer": ("exact", "WER %"),
    "ssd_length": ("SSD", "tokens a round"),
    "ssd_wer": ("SSD", "WER %"),
    "cost": ("SSD minus exact, points", ""),
}
Seeds = dict[int, dict[str, Run]]  # runs of a training seed by system


def seeds(runs: Iterable[Run]) -> dict[str, Seeds]:
    """Return each kind's runs by training seed; a seed that lacks a system is left out."""
    found: dict[str, Seeds] = {kind: {} for kind in KINDS}
    for run in runs:
        alone = run.config["system"] == "draft"
        kind = "lm" if alone else str(run.config.get("drafter.name"))
        path = str(run.config.get("draft.path" if kind == "lm" else "drafter.path"))
        number = re.search(r"seed(\d+)$", path.replace(SHIPPED, "seed0"))
        system = ALONE if alone else rule_of(run)
        if number and kind in found and system and run.seed == 0:
            found[kind].setdefault(int(number[1]), {})[system] = run
    wanted = {"lm": {ALONE, EXACT, SSD}, "recurrent": {EXACT, SSD}}
    return {
        kind: {seed: of[seed] for seed in sorted(of) if of[seed].keys() == wanted[kind]}
        for kind, of in found.items()
    }


def rule_of(run: Run) -> str | None:
    """Return the system of a speculative run; None for one of another rule or tolerance."""
    if run.config.get("rule.name") == "tolerance":
        return SSD if run.config["rule.beta"] == method("ssd")["rule.beta"] else None
    return EXACT if run.config.get("rule.name") == "exact" else None


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


def figures(of: Mapping[str, list[ScoreRow]]) -> dict[str, tuple[Measure, int]]:
    """Return the figures of one seed, with their digits."""
    measured = {}
    for system, rows in of.items():
        if system != ALONE:
            measured[f"{system}_length"] = interval(rows, METRICS["acceptance_length"], HOW), 2
        measured[f"{system}_wer"] = interval(rows, METRICS["wer"], HOW).scaled(100), 1
    cost = difference(compare_rows(of[EXACT], of[SSD], "wer", HOW)).scaled(100)
    return measured | {"cost": (cost, 1)}


def over_seeds(measures: Sequence[Measure]) -> float:
    """Return the standard deviation of a figure over training seeds."""
    return stdev(one.value or 0.0 for one in measures)


def over_utterances(measures: Sequence[Measure]) -> float:
    """Return the standard deviation that draws of the utterances give one seed's figure."""
    return fmean(((one.high or 0.0) - (one.low or 0.0)) / INTERVAL for one in measures)


def block(kind: str, found: Mapping[int, Mapping[str, list[ScoreRow]]]) -> tables.Block:
    """Return a line a training seed, and the two standard deviations."""
    rows = {seed: figures(of) for seed, of in found.items()}
    names = list(next(iter(rows.values())))
    lines = [
        tables.Line(
            f"{kind}{seed}",
            f"seed {seed}",
            [tables.Cell(m, digits, signed=name == "cost") for name, (m, digits) in row.items()],
        )
        for seed, row in rows.items()
    ]
    for key, label, deviation in (
        ("seeds", "standard deviation over training seeds", over_seeds),
        ("utterances", "standard deviation over utterances", over_utterances),
    ):
        spread = [
            tables.Cell(Measure(deviation([row[name][0] for row in rows.values()])), 2)
            for name in names
        ]
        lines.append(tables.Line(f"{kind}_{key}", label, spread, rule_above=key == "seeds"))
    headings = [tables.Heading(*HEADINGS[name], name) for name in names]
    return tables.Block(KINDS[kind], headings, lines, of="training seed")


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
        blocks=[block(kind, of) for kind, of in rows.items()],
    )
    write_atomic(out / f"{NAME}.md", tables.markdown(table))
    write_atomic(out / f"{NAME}.csv", tables.comma_separated(table))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
