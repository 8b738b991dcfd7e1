"""The PCG paper's figures, and the settings of its systems."""

from collections.abc import Sequence
from typing import Any

from speculative_tts.reporting import paper
from speculative_tts.reporting.definitions import (
    Axes,
    Curve,
    FigureDefinition,
    Level,
    Published,
)
from speculative_tts.reporting.experiments import Experiment, method
from speculative_tts.reporting.runs import Where
from speculative_tts.reporting.systems import (
    EXACT,
    TARGET_LEVEL,
    TOLERANCE,
    length_over_lookahead,
    over_lookahead,
    speedup_over_lookahead,
)

PAPERS_GROUPS = {
    "rule.groups.theta": None,
    "rule.groups.cap": None,
    "rule.groups.weights": "equal",
    "rule.groups.path": None,
    "rule.groups.source": "embedding",
}
GROUPS = {**method("pcg"), **PAPERS_GROUPS}
SWAP = {**method("swap"), **PAPERS_GROUPS}
SIZE, BETA = "rule.groups.mean_size", "rule.beta"


def at(experiment: Experiment, where: Where) -> dict[str, Any]:
    """A system at the experiment's lookahead."""
    return {**where, "lookahead": experiment.settings["lookahead"]}


def sizes(experiment: Experiment) -> list[float]:
    """Mean tokens of a group; theta follows from them."""
    return [float(size) for size in experiment.values(SIZE)]


def _published(row: str, label: str) -> Published:
    table = paper.PCG_TABLE_1
    return Published(f"paper: {label}", (table.value(row, "speedup"),), (table.value(row, "wer"),))


def figure_2(made_by: Experiment, ssd: Experiment, theta: Experiment | None) -> FigureDefinition:
    """Word errors and distortion against speed; `theta` has the groups that a given θ makes."""
    where, k = at(made_by, GROUPS), made_by.settings["lookahead"]
    betas = [float(beta) for beta in ssd.values(BETA)]
    curves = [
        Curve("PCG, mean group size", where, SIZE, sizes(made_by), style=0),
        Curve("SSD, β", at(ssd, TOLERANCE), BETA, betas, style=1),
    ]
    if theta is not None:
        thetas = theta.values("rule.groups.theta")
        curves.append(Curve("PCG, θ", where, "rule.groups.theta", thetas, style=2, optional=True))
    points = (Level("exact SD", at(made_by, EXACT)), TARGET_LEVEL)
    printed = [_published(*one) for one in (("exact", "SD"), ("ssd", "SSD"), ("pcg", "PCG"))]

    def frontier(title: str, y: str, x: str, label: str, *published: Published) -> Axes:
        """All curves over one measure of speed."""
        return Axes(title, y, curves, x=x, x_label=label, levels=points, published=published)

    measured = "speedup over the target alone (measured)"
    by_length = "speedup by acceptance length (no timing noise)"
    return FigureDefinition(
        name="figure2",
        title=f"PCG Figure 2: word errors and distortion against speed (lookahead {k})",
        experiment=made_by.name,
        columns=2,
        axes=(
            frontier("Word errors, measured speed", "wer", "speedup", measured, *printed),
            frontier("Word errors, speed by length", "wer", "speedup_by_length", by_length),
            frontier("Distortion, measured speed", "tv", "speedup", measured),
            frontier("Distortion, speed by length", "tv", "speedup_by_length", by_length),
        ),
        notes=(
            "Numbers beside the points are β, the mean group size (θ of each: groups.md) or θ.",
            (
                "Distortion is the total variation between the target's next-token law and the "
                "emitted one. PCG's law of the group is the target's, whatever its distortion of "
                "tokens."
            ),
            "The paper's points are those of its Table 1; its WER is by HuBERT on LibriTTS.",
        ),
    )


def figure_3(
    made_by: Experiment, ssd: Experiment, exact: Experiment, chosen: int
) -> FigureDefinition:
    """Speed against lookahead; `chosen` is that of the tables."""
    size, beta = float(made_by.settings[SIZE]), float(ssd.settings[BETA])
    systems: Sequence[tuple[str, Where, Experiment]] = (
        (f"PCG, mean size {size:g}", {**GROUPS, SIZE: size}, made_by),
        (f"SSD, β = {beta:g}", {**TOLERANCE, BETA: beta}, ssd),
        ("exact SD", EXACT, exact),
    )
    curves = [
        Curve(label, where, "lookahead", one.values("lookahead"), style=style)
        for style, (label, where, one) in enumerate(systems)
    ]
    return FigureDefinition(
        name="figure3",
        title="PCG Figure 3: speed against lookahead",
        experiment=made_by.name,
        axes=(
            speedup_over_lookahead(curves, chosen),
            length_over_lookahead(curves, chosen),
            over_lookahead("Word errors", "wer", curves, chosen),
        ),
        notes=("The paper finds 3 best (vertical line); it prints no values.",),
    )
