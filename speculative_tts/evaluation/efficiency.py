"""Speed, acceptance and distortion from the counts of decode records, each a ratio of sums.

With tokens per second of audio = sum(tokens) / sum(audio seconds), LM-RTF = time per token x token
rate. Emitted tokens count, drafted ones do not; the stop id is one of them, and LM seconds include
the prefill. Where no language model ran (reference, codec, another system's audio) the columns are
empty and so are the figures.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.statistics import Array, Statistic, ratio

Columns = Callable[[ScoreRow], tuple[float | None, ...]]


@dataclass(frozen=True)
class Metric:
    """A figure: which columns of a row are summed, and what is made of the sums.

    A row with a None takes no part.
    """

    columns: Columns
    statistic: Statistic = ratio


def of(numerator: str, denominator: str, scale: float = 1.0) -> Metric:
    """Ratio of two columns of `ScoreRow`, times `scale`."""

    def columns(row: ScoreRow) -> tuple[float | None, ...]:
        top, bottom = getattr(row, numerator), getattr(row, denominator)
        return (None if top is None else scale * top, bottom)

    return Metric(columns)


def mean(column: str) -> Metric:
    """Mean over utterances of a column of `ScoreRow`."""
    return Metric(lambda row: (getattr(row, column), 1.0))


def total(columns: Sequence[float | None]) -> float | None:
    """Sum of some columns of a row; None where one of them was not measured."""
    known = [value for value in columns if value is not None]
    return float(sum(known)) if len(known) == len(columns) else None


def speedup(sums: Array) -> Array:
    """Tokens a second over the paired baseline's, from sums in `_speedup_columns`'s order.

    Per token, because a decoder that happens to stop earlier is not faster.
    """
    tokens, seconds, baseline_tokens, baseline_seconds = np.moveaxis(sums, -1, 0)
    return ratio(np.stack([tokens * baseline_seconds, seconds * baseline_tokens], axis=-1))


def _speedup_columns(row: ScoreRow) -> tuple[float | None, ...]:
    return (row.tokens, row.lm_seconds, row.baseline_tokens, row.baseline_seconds)


def _instrumented(name: str, over: str = "positions") -> Metric:
    """Ratio of two per-position sums of the instrumented decode; a mean over verified positions."""

    def columns(row: ScoreRow) -> tuple[float | None, ...]:
        values, weights = getattr(row, name), getattr(row, over)
        return (None, None) if values is None or weights is None else (sum(values), sum(weights))

    return Metric(columns)


def _emitted(row: ScoreRow) -> tuple[float | None, ...]:
    """Tokens that rounds emitted, and rounds: the prefill's token is no round's."""
    return (total((row.accepted, row.residuals, row.bonuses)), row.rounds)


def _share(part: str) -> Metric:
    """Share of a part of the round in the seconds of the instrumented decode."""

    def columns(row: ScoreRow) -> tuple[float | None, ...]:
        seconds = (row.draft_seconds, row.verify_seconds, row.accept_seconds)
        return (getattr(row, part), total(seconds))

    return Metric(columns)


def _stopped_at_max(row: ScoreRow) -> tuple[float | None, ...]:
    return (None if row.stop is None else float(row.stop == "max_length"), 1.0)


EFFICIENCY: dict[str, Metric] = {
    "lm_rtf": of("lm_seconds", "audio_seconds"),
    "time_per_token_ms": of("lm_seconds", "tokens", scale=1000.0),
    "tokens_per_second": of("tokens", "lm_seconds"),
    "speedup": Metric(_speedup_columns, speedup),
    "speedup_seconds": of("baseline_seconds", "lm_seconds"),  # lengths not compensated
    "acceptance_rate": of("accepted", "drafted"),
    "acceptance_length": Metric(_emitted),  # residual and bonus included (vLLM's convention)
    "acceptance_length_without_bonus": of("accepted", "rounds"),  # accepted drafts alone
    "tv": _instrumented("tv"),
    "kl": _instrumented("kl"),
    # draws of PCG's thinning after a rejection
    "expected_trials": _instrumented("expected_trials", over="expected_rejections"),
    "length_ratio": of("audio_seconds", "reference_seconds"),
    "stopped_at_max": Metric(_stopped_at_max),
    "draft_share": _share("draft_seconds"),
    "verify_share": _share("verify_seconds"),
    "accept_share": _share("accept_seconds"),
    "swapped": of("swapped", "tokens"),
    "changed": of("changed", "tokens"),
}


def per_position(rows: list[ScoreRow]) -> dict[str, list[float | None]]:
    """Acceptance, TV and KL by depth in the round, first drafted token first; may be empty."""
    return {
        "acceptance": _by_depth(rows, "accepted_per_position", "drafted_per_position"),
        "tv": _by_depth(rows, "tv", "positions"),
        "kl": _by_depth(rows, "kl", "positions"),
    }


def _by_depth(rows: list[ScoreRow], numerator: str, denominator: str) -> list[float | None]:
    pairs = [(getattr(row, numerator) or [], getattr(row, denominator) or []) for row in rows]
    depth = max((len(column) for pair in pairs for column in pair), default=0)
    tops, bottoms = np.zeros(depth), np.zeros(depth)
    for top, bottom in pairs:
        tops[: len(top)] += top
        bottoms[: len(bottom)] += bottom
    values = ratio(np.stack([tops, bottoms], axis=-1))
    return [float(value) if np.isfinite(value) else None for value in values]
