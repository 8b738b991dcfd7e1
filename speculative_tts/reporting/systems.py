"""What the reports share: systems, columns, and the axes over the lookahead."""

from collections.abc import Sequence

from speculative_tts.reporting.definitions import Axes, Column, Curve, Level, Published, Row

LOOKAHEADS = tuple(range(1, 9))
CHOSEN = 3  # the lookahead of the papers' tables
LOOKAHEAD_AXIS = "lookahead (tokens drafted a round)"

TARGET = {"system": "target"}
DRAFT = {"system": "draft"}
EXACT = {"system": "speculative", "rule.name": "exact"}
TOLERANCE = {"system": "speculative", "rule.name": "tolerance"}

ITSELF = {"speedup": 1.0, "speedup_by_length": 1.0, "tv": 0.0}  # the target against the target
TARGET_ROW = Row("Target alone", TARGET, fixed={"speedup": 1.0, "speedup_by_length": 1.0})
TARGET_LEVEL = Level("target alone", TARGET, fixed=ITSELF)

SPECULATION = (
    Column("acceptance_rate"),
    Column("acceptance_length"),
    Column("acceptance_length_without_bonus"),
    Column("tv"),
    Column("kl"),
    Column("time_per_token_ms"),
)


def against(row: str, *metrics: str) -> tuple[Column, ...]:
    """Paired differences of some metrics to a row."""
    return tuple(Column(metric, against=row) for metric in metrics)


def over_lookahead(title: str, y: str, curves: Sequence[Curve], y_label: str = "") -> Axes:
    """A quantity over the lookahead, the papers' choice marked."""
    return Axes(title, y, curves, x_label=LOOKAHEAD_AXIS, y_label=y_label, chosen=CHOSEN)


def speedup_over_lookahead(curves: Sequence[Curve], *published: Published) -> Axes:
    """Speedup over the lookahead, beside the target alone."""
    return Axes(
        "Speedup over the target alone",
        "speedup",
        curves,
        x_label=LOOKAHEAD_AXIS,
        y_label="speedup (same engine)",
        levels=(TARGET_LEVEL,),
        published=published,
        chosen=CHOSEN,
    )


def length_over_lookahead(curves: Sequence[Curve]) -> Axes:
    """Acceptance length over the lookahead, below the most that a round can emit."""
    return Axes(
        "Acceptance length",
        "acceptance_length",
        curves,
        x_label=LOOKAHEAD_AXIS,
        y_label="emitted tokens a round",
        ceiling="lookahead + 1",
        chosen=CHOSEN,
    )
