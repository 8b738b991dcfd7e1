"""Ask whether PCG's advantage over SSD grows with the word errors of the draft alone.

    python scripts/draft_quality.py runs/sentences/drafts results/sentences [BETA [OTHERS]]

The first folder holds scored runs of several drafts of one target on one list: each draft alone,
with SSD's tolerance (BETA; the paper's where none is given) and with PCG's groups. The advantage is
SSD's word errors minus PCG's, in points. Its slope over the drafts' own word errors, and its mean,
come with the interval of a bootstrap over utterances, which are drawn for all systems at once.
OTHERS are, between commas, names of drafts of the folder and .csv files of earlier tables: drafts
that stand in table and figure and enter neither. Write draft_quality.md, .csv and the figure.
"""

import csv
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import stats

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

Array = npt.NDArray[np.float64]
NAME = "draft_quality"
ALONE, SSD, PCG = "alone", "ssd", "pcg"
LENGTH = "acceptance_length"
EDITS = ("substitutions", "deletions", "insertions")
RULES = {SSD: "rule.beta", PCG: "rule.groups.mean_size"}  # with the key of their setting
LINE = 2  # parameters of a line, and the fewest drafts that give one
HEADINGS = [
    tables.Heading("draft", "", "system"),
    tables.Heading("draft alone, WER %", "", f"{ALONE}_wer"),
    *(
        tables.Heading(name.upper(), sub, f"{name}_{column}")
        for name in RULES
        for sub, column in (
            ("setting", "setting"),
            ("tokens a round", "length"),
            ("WER %", "wer"),
        )
    ),
    tables.Heading("SSD minus PCG, points", "", "advantage"),
]
FIGURES = [one.name for one in HEADINGS[1:] if not one.name.endswith("_setting")]


@dataclass(frozen=True)
class Estimate:
    """A figure over several drafts, with its 95 % interval over utterances."""

    value: float
    low: float
    high: float

    def verdict(self, above: str, below: str) -> str:
        """Say what the interval shows."""
        return above if self.low > 0 else below if self.high < 0 else "not shown either way"

    def __str__(self) -> str:
        return f"{self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


@dataclass(frozen=True)
class Fit:
    """PCG's advantage over the word errors of the drafts alone, in points."""

    slope: Estimate  # points of advantage for each point of the draft's own word errors
    mean: Estimate  # of the drafts' advantages
    over_drafts: tuple[float, float] | None  # of the slope, by the scatter of its points

    @property
    def notes(self) -> tuple[str, ...]:
        """Say what the drafts show."""
        grows = self.slope.verdict("grows", "falls")
        slope = f"Slope of the advantage over the draft's word errors: {self.slope} points a point"
        if self.over_drafts:
            low, high = self.over_drafts
            slope += f" (over drafts, by the scatter of their points [{low:+.3f}, {high:+.3f}])"
        mean = f"Mean advantage: {self.mean} points: PCG errs on"
        words = self.mean.verdict("fewer words", "more words")
        return f"{slope}: {grows}.", f"{mean} {words}."


@dataclass(frozen=True)
class Row:
    """A draft's figures by column, and the settings of both rules."""

    settings: Mapping[str, str]
    figures: Mapping[str, Measure]


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


def fit(counts: Mapping[str, Mapping[str, Array]], draws: int = DRAWS, seed: int = 0) -> Fit:
    """Fit the advantages by least squares; `counts` are [utterances, 2] by draft and system."""
    units = len(next(iter(counts.values()))[ALONE])
    drawn = np.random.default_rng(seed).multinomial(units, [1 / units] * units, size=draws)
    point, sample = _points(counts, np.ones((1, units))), _points(counts, drawn.astype(float))
    return Fit(_estimate(_slopes, point, sample), _estimate(_means, point, sample), scatter(*point))


def _points(counts: Mapping[str, Mapping[str, Array]], drawn: Array) -> tuple[Array, Array]:
    """Return own word errors and advantages [draws, drafts] in each draw [draws, utterances]."""

    def errors(name: str) -> Array:
        sums = np.stack([drawn @ of[name] for of in counts.values()], 1)
        return np.asarray(100 * sums[..., 0] / sums[..., 1])

    return errors(ALONE), errors(SSD) - errors(PCG)


def _estimate(
    of: Callable[[Array, Array], Array], point: tuple[Array, Array], sample: tuple[Array, Array]
) -> Estimate:
    low, high = np.quantile(of(*sample), [0.025, 0.975])
    return Estimate(float(of(*point)[0]), float(low), float(high))


def _slopes(x: Array, y: Array) -> Array:
    x = x - x.mean(1, keepdims=True)
    return np.asarray((x * y).sum(1) / (x * x).sum(1))


def _means(_x: Array, y: Array) -> Array:
    return np.asarray(y.mean(1))


def scatter(x: Array, y: Array) -> tuple[float, float] | None:
    """Return the slope's 95 % interval by the scatter of its points; None of fewer than three."""
    if x.size <= LINE:
        return None
    fitted = stats.linregress(x.ravel(), y.ravel())
    half = stats.t.ppf(0.975, x.size - LINE) * fitted.stderr
    return float(fitted.slope - half), float(fitted.slope + half)


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
    return compare([three[PCG].folder], [three[SSD].folder], ["wer"])["wer"].scaled(100)


def row(three: Mapping[str, Run]) -> Row:
    """Return the figures of a draft's three runs."""
    figures = {f"{ALONE}_wer": measure(three[ALONE], "wer", 100), "advantage": advantage(three)}
    for name in RULES:
        figures[f"{name}_length"] = measure(three[name], LENGTH)
        figures[f"{name}_wer"] = measure(three[name], "wer", 100)
    return Row({name: f"{three[name].config[key]:g}" for name, key in RULES.items()}, figures)


def printed(path: Path) -> dict[str, Row]:
    """Return the drafts of a table that this script wrote."""
    with path.open(encoding="utf-8") as file:
        return {line["key"]: _printed(line) for line in csv.DictReader(file)}


def _printed(line: Mapping[str, str]) -> Row:
    def figure(name: str) -> Measure:
        value, low, high, p = (
            float(text) if (text := line.get(f"{name}{end}")) else None
            for end in ("", "_low", "_high", "_p")
        )
        return Measure(value, low, high, n=int(line[f"{name}_n"]), p=p)

    settings = {name: line[f"{name}_setting"] for name in RULES}
    return Row(settings, {name: figure(name) for name in FIGURES})


def table(
    rows: Mapping[str, Row], runs: Sequence[Run], fitted: Fit, others: Mapping[str, Row]
) -> tables.Table:
    """Return a line a draft, from the draft with the fewest word errors on, then the others."""
    caption = (
        "Brackets: 95 % intervals of the bootstrap over utterances, paired for differences. How "
        "the drafts were made may carry a slope as well as their errors do (results/registered)."
    )
    caption += f" {lengths(rows.values())}"
    if others:
        caption += " Other drafts enter neither slope nor mean."
    blocks = {"Drafts of one target": rows, "Other drafts of it": others}
    return tables.Table(
        name=NAME,
        title="PCG's advantage over SSD, by the word errors of the draft alone",
        caption=(caption,),
        notes=fitted.notes,
        origin=origin(list(runs)),
        speech=synthetic(list(runs)),
        blocks={
            title: {draft: _cells(draft, row) for draft, row in of.items()}
            for title, of in blocks.items()
            if of
        },
    )


def lengths(rows: Iterable[Row]) -> str:
    """Say by how much PCG's rounds are longer than SSD's."""
    ratios = [
        (row.figures[f"{PCG}_length"].value or 0.0) / (row.figures[f"{SSD}_length"].value or 1.0)
        for row in rows
    ]
    low, high = (100 * (of(ratios) - 1) for of in (min, max))
    return (
        f"Of the drafts that are compared PCG's rounds are {low:.1f} to {high:.1f} % longer than "
        "SSD's; longer rounds would rather cost PCG words."
    )


def _cells(draft: str, row: Row) -> dict[tables.Heading, tables.Cell]:
    def cell(name: str) -> tables.Cell:
        if name == "system":
            return tables.Cell(draft)
        if name.endswith("_setting"):
            return tables.Cell(row.settings[name.removesuffix("_setting")])
        digits = 2 if name.endswith("_length") else 1
        return tables.Cell.of(row.figures[name], digits, signed=name == "advantage")

    return {heading: cell(heading.name) for heading in HEADINGS}


def figure(rows: Mapping[str, Row], made: tables.Table, others: Mapping[str, Row]) -> Figure:
    """Return word errors of both rules, and their difference, over the draft's own."""

    def series(label: str, kind: str, of: Mapping[str, Row], name: str, style: int) -> list[Series]:
        points = [
            Point(row.figures[f"{ALONE}_wer"].value or 0.0, row.figures[name], draft)
            for draft, row in of.items()
        ]
        return [Series(label, kind, points, style)] if points else []

    words = [
        one
        for style, (name, label) in enumerate(((SSD, "SSD"), (PCG, "PCG")))
        for one in (
            *series(label, "curve", rows, f"{name}_wer", style),
            *series(f"{label}, other drafts", "scatter", others, f"{name}_wer", style + 3),
        )
    ]
    gain = [
        *series("SSD minus PCG", "scatter", rows, "advantage", 2),
        *series("other drafts", "scatter", others, "advantage", 5),
        Series("no difference", "level", [Point(float("nan"), Measure(0.0))]),
    ]
    x = "word errors of the draft alone, %"
    return Figure(
        name=NAME,
        title=made.title,
        caption=made.caption,
        notes=made.notes,
        plots=(
            Plot("Word errors at nearly equal tokens a round", x, "WER %", words),
            Plot("PCG's advantage", x, "points", gain),
        ),
        columns=2,
    )


def main(folder: str, to: str, beta: str | None = None, beside: str = "") -> None:
    """Write table, points and figure."""
    runs, out = Path(folder), Path(to)
    tolerance = float(beta) if beta else method("ssd")["rule.beta"]
    found = systems(list(find_runs(runs).runs), tolerance)
    own = {draft: measure(three[ALONE], "wer").value or 0.0 for draft, three in found.items()}
    found = {draft: found[draft] for draft in sorted(found, key=own.__getitem__)}
    rows = {draft: row(three) for draft, three in found.items()}
    every = [run for three in found.values() for run in three.values()]
    others: dict[str, Row] = {}
    for one in filter(None, beside.split(",")):
        others |= printed(Path(one)) if one.endswith(".csv") else {one: rows.pop(one)}
    if len(rows) < LINE:
        sys.exit(f"{runs} has {len(rows)} drafts with all three systems scored; a slope needs 2")
    fitted = fit(common({draft: found[draft] for draft in rows}))
    made = table(rows, every, fitted, others)
    drawn = figure(rows, made, others)
    files: dict[str, str | bytes] = {
        "md": tables.markdown(made) + f"\n![{made.title}]({NAME}.png)\n",
        "csv": tables.comma_separated(made),
        **draw(drawn),
    }
    for ending, data in files.items():
        write_atomic(out / f"{NAME}.{ending}", data)
    write_atomic(out / f"{NAME}_points.csv", figure_csv(drawn))
    print(*made.notes, sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
