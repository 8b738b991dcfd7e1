"""What the reports share: systems, columns, and the axes over the lookahead."""

from collections.abc import Mapping, Sequence

from speculative_tts.reporting.definitions import (
    Axes,
    Column,
    Curve,
    Level,
    Published,
    Row,
    columns,
)
from speculative_tts.reporting.experiments import Experiment, method

LOOKAHEAD_AXIS = "lookahead (tokens drafted a round)"

TARGET = method("target")
EXACT = method("exact")
TOLERANCE = method("ssd")

ITSELF = {"speedup": 1.0, "speedup_by_length": 1.0, "tv": 0.0}  # the target against the target
TARGET_ROW = Row("Target alone", TARGET, fixed={"speedup": 1.0, "speedup_by_length": 1.0})
TARGET_LEVEL = Level("target alone", TARGET, fixed=ITSELF)

SPECULATION = columns(
    "acceptance_rate acceptance_length acceptance_length_without_bonus tv kl time_per_token_ms"
)


def of_methods(experiment: Experiment, rows: Mapping[str, Row]) -> dict[str, Row]:
    """Of rows by method those whose method the experiment sweeps, in the order of the rows."""
    swept = experiment.values("method")
    return {name: row for name, row in rows.items() if name in swept}


def against(row: str, *metrics: str) -> tuple[Column, ...]:
    """Paired differences of some metrics to a row."""
    return tuple(Column(metric, against=row) for metric in metrics)


def over_lookahead(
    title: str, y: str, curves: Sequence[Curve], chosen: int, y_label: str = ""
) -> Axes:
    """A quantity over the lookahead, that of the paper's tables marked."""
    return Axes(title, y, curves, x_label=LOOKAHEAD_AXIS, y_label=y_label, chosen=chosen)


def speedup_over_lookahead(curves: Sequence[Curve], chosen: int, *published: Published) -> Axes:
    """Speedup over the lookahead, beside the target alone."""
    return Axes(
        "Speedup over the target alone",
        "speedup",
        curves,
        x_label=LOOKAHEAD_AXIS,
        y_label="speedup (same engine)",
        levels=(TARGET_LEVEL,),
        published=published,
        chosen=chosen,
    )


def length_over_lookahead(curves: Sequence[Curve], chosen: int) -> Axes:
    """Acceptance length over the lookahead, below the most that a round can emit."""
    return Axes(
        "Acceptance length",
        "acceptance_length",
        curves,
        x_label=LOOKAHEAD_AXIS,
        y_label="emitted tokens a round",
        ceiling="lookahead + 1",
        chosen=chosen,
    )
