"""Ask whether PCG's advantage over SSD grows with the word errors of the draft alone.

    python scripts/draft_quality.py runs/sentences/drafts results/sentences [BETA]

The first folder holds scored runs of several drafts of one target on one list: each draft alone,
with SSD's tolerance (BETA; the paper's where none is given) and with PCG's groups. The advantage is
SSD's word errors minus PCG's, in points. Its slope over the drafts' own word errors comes with the
interval of a bootstrap over utterances, which are drawn for all systems at once. Write
draft_quality.md, .csv and the figure.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from speculative_tts.evaluation.compare import compare
from speculative_tts.evaluation.statistics import DRAWS, Measure
from speculative_tts.evaluation.summary import read_scores
from speculative_tts.files import write_atomic
from speculative_tts.reporting import tables
from speculative_tts.reporting.captions import synthetic
from speculative_tts.reporting.experiments import method
from speculative_tts.reporting.figures import draw
from speculative_tts.reporting.fill_figure import Figure, Plot, Point, Series, figure_csv
from speculative_tts.reporting.origin import origin
from speculative_tts.reporting.runs import Run, find_runs
from speculative_tts.reporting.selection import difference

Array = npt.NDArray[np.float64]
NAME = "draft_quality"
ALONE, SSD, PCG = "alone", "ssd", "pcg"
LENGTH = "acceptance_length"
EDITS = ("substitutions", "deletions", "insertions")


@dataclass(frozen=True)
class Slope:
    """Points of advantage gained for each point of the draft's own word errors."""

    value: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Say what the interval shows."""
        return "grows" if self.low > 0 else "falls" if self.high < 0 else "not shown either way"


def systems(runs: list[Run], beta: float) -> dict[str, dict[str, Run]]:
    """Return the three runs of every draft by its name; drafts that lack one are left out.

    SSD has the tolerance `beta`, PCG the groups whose rounds are nearest to SSD's in length.
    """
    found: dict[str, dict[str, Run]] = {}
    groups: dict[str, list[Run]] = {}
    for run in (run for run in runs if run.seed == 0):
        draft = str(run.config.get("draft.name"))
        own, rule = found.setdefault(draft, {}), run.config.get("rule.name")
        if run.config["system"] == "draft":
            own[ALONE] = run
        elif rule == "tolerance" and run.config["rule.beta"] == beta:
            own[SSD] = run
        elif rule == "group":
            groups.setdefault(draft, []).append(run)
    for draft, candidates in groups.items():
        if SSD in found[draft]:
            goal = measure(found[draft][SSD], LENGTH).value or 1.0
            found[draft][PCG] = min(candidates, key=lambda run: _away(run, goal))
    return {draft: three for draft, three in found.items() if len(three) == 3}


def _away(run: Run, goal: float) -> float:
    """Return how far a run's tokens a round are from the wanted ones."""
    return abs((measure(run, LENGTH).value or 0.0) - goal)


def columns(run: Run) -> dict[str, tuple[float, float]]:
    """Return word edits and words of each utterance."""
    rows = [row for row in read_scores(run.folder) if row.error is None and row["words"]]
    return {row.id: (sum(row[edit] for edit in EDITS), row["words"]) for row in rows}


def slope(counts: Mapping[str, Mapping[str, Array]], draws: int = DRAWS, seed: int = 0) -> Slope:
    """Fit the advantages by least squares; `counts` are [utterances, 2] by draft and system."""
    units = len(next(iter(counts.values()))[ALONE])
    drawn = np.random.default_rng(seed).multinomial(units, [1 / units] * units, size=draws)
    (value,), values = (_slopes(counts, of) for of in (np.ones((1, units)), drawn))
    low, high = np.quantile(values, [0.025, 0.975])
    return Slope(float(value), float(low), float(high))


def _slopes(counts: Mapping[str, Mapping[str, Array]], drawn: Array) -> Array:
    """Return the slope in each draw [draws, utterances]."""

    def errors(name: str) -> Array:
        sums = np.stack([drawn @ of[name] for of in counts.values()], 1)
        return 100 * sums[..., 0] / sums[..., 1]

    x, y = errors(ALONE), errors(SSD) - errors(PCG)
    x = x - x.mean(1, keepdims=True)
    return np.asarray((x * y).sum(1) / (x * x).sum(1))


def common(found: Mapping[str, Mapping[str, Run]]) -> dict[str, dict[str, Array]]:
    """Return the counts of the utterances that every system has."""
    rows = {draft: {name: columns(run) for name, run in of.items()} for draft, of in found.items()}
    every = [set(one) for of in rows.values() for one in of.values()]
    ids = sorted(set.intersection(*every))
    return {
        draft: {name: np.array([one[id_] for id_ in ids]) for name, one in of.items()}
        for draft, of in rows.items()
    }


def measure(run: Run, name: str, scale: float = 1.0) -> Measure:
    """Return a figure of a run."""
    return run.measure(name).scaled(scale)


def advantage(three: Mapping[str, Run]) -> Measure:
    """Return SSD's word errors minus PCG's, in points, paired by utterance."""
    row = compare([three[PCG].folder], [three[SSD].folder], ["wer"])["wer"]
    return difference(row).scaled(100)


def table(found: Mapping[str, Mapping[str, Run]], fitted: Slope) -> tables.Table:
    """Return a line a draft, from the draft with the fewest word errors on."""
    headings = [
        tables.Heading("draft", "", "system"),
        tables.Heading("draft alone, WER %", "", "alone_wer"),
        *(
            tables.Heading(label, sub, f"{name}_{column}")
            for name, label in ((SSD, "SSD"), (PCG, "PCG"))
            for sub, column in (
                ("setting", "setting"),
                ("tokens a round", "length"),
                ("WER %", "wer"),
            )
        ),
        tables.Heading("SSD minus PCG, points", "", "advantage"),
    ]
    lines = {
        draft: dict(zip(headings, [tables.Cell(draft), *_cells(three)], strict=True))
        for draft, three in found.items()
    }
    runs = [run for three in found.values() for run in three.values()]
    note = (
        f"Slope of the advantage over the draft's word errors: {fitted.value:+.3f} "
        f"[{fitted.low:+.3f}, {fitted.high:+.3f}] points a point: {fitted.verdict}."
    )
    return tables.Table(
        name=NAME,
        title="PCG's advantage over SSD, by the word errors of the draft alone",
        caption=(
            "Brackets: 95 % intervals of the bootstrap over utterances, paired for differences.",
        ),
        notes=(note,),
        origin=origin(runs),
        speech=synthetic(runs),
        blocks={"Drafts of one target": lines},
    )


def _cells(three: Mapping[str, Run]) -> list[tables.Cell]:
    cells = [tables.Cell.of(measure(three[ALONE], "wer", 100), 1)]
    for name, key in ((SSD, "rule.beta"), (PCG, "rule.groups.mean_size")):
        run = three[name]
        cells.append(tables.Cell(f"{run.config[key]:g}"))
        cells.append(tables.Cell.of(measure(run, LENGTH)))
        cells.append(tables.Cell.of(measure(run, "wer", 100), 1))
    return [*cells, tables.Cell.of(advantage(three), 1, signed=True)]


def figure(found: Mapping[str, Mapping[str, Run]], printed: tables.Table) -> Figure:
    """Return word errors of both rules, and their difference, over the draft's own."""

    def points(of: Mapping[str, Measure]) -> list[Point]:
        return [
            Point(measure(found[draft][ALONE], "wer", 100).value or 0.0, y, draft)
            for draft, y in of.items()
        ]

    x = "word errors of the draft alone, %"
    words = [
        Series(
            label,
            "curve",
            points({d: measure(of[name], "wer", 100) for d, of in found.items()}),
            style,
        )
        for style, (name, label) in enumerate(((SSD, "SSD"), (PCG, "PCG")))
    ]
    gain = Series(
        "SSD minus PCG", "scatter", points({d: advantage(of) for d, of in found.items()}), 2
    )
    none = Series("no difference", "level", [Point(float("nan"), Measure(0.0))])
    return Figure(
        name=NAME,
        title=printed.title,
        caption=printed.caption,
        notes=printed.notes,
        plots=(
            Plot("Word errors at equal tokens a round", x, "WER %", words),
            Plot("PCG's advantage", x, "points", [gain, none]),
        ),
        columns=2,
    )


def main(folder: str, to: str, beta: str | None = None) -> None:
    """Write table, points and figure."""
    runs, out = Path(folder), Path(to)
    tolerance = float(beta) if beta else method("ssd")["rule.beta"]
    found = systems(list(find_runs(runs).runs), tolerance)
    if len(found) < 2:
        sys.exit(f"{runs} has {len(found)} drafts with all three systems scored; a slope needs 2")
    own = {draft: measure(three[ALONE], "wer").value or 0.0 for draft, three in found.items()}
    found = {draft: found[draft] for draft in sorted(found, key=own.__getitem__)}
    made = table(found, slope(common(found)))
    drawn = figure(found, made)
    files: dict[str, str | bytes] = {
        "md": tables.markdown(made) + f"\n![{made.title}]({NAME}.png)\n",
        "csv": tables.comma_separated(made),
        **draw(drawn),
    }
    for ending, data in files.items():
        write_atomic(out / f"{NAME}.{ending}", data)
    write_atomic(out / f"{NAME}_points.csv", figure_csv(drawn))
    print(made.notes[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
