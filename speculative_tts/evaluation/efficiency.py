"""Declare metrics of speed, acceptance and distortion, as ratios of sums over decode records.

With tokens per second of audio = sum(tokens) / sum(audio seconds), LM-RTF = time per token x token
rate. Emitted tokens count, drafted ones do not; the stop id is one of them, and LM seconds include
the prefill. Where no language model ran (reference, codec, another system's audio) the columns are
empty and so are the figures.
"""

from functools import partial

import numpy as np

from speculative_tts.evaluation.metric import Better, Columns, Metric, each, over, total
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.statistics import Array, ratio
from speculative_tts.records import SPLIT

LOWER, HIGHER = Better.lower, Better.higher


def speedup(sums: Array) -> Array:
    """Return tokens per second over the paired baseline's, from sums of `_speedup_columns`.

    Per token, because a decoder that happens to stop earlier is not faster.
    """
    tokens, seconds, baseline_tokens, baseline_seconds = np.moveaxis(sums, -1, 0)
    return ratio(np.stack([tokens * baseline_seconds, seconds * baseline_tokens], axis=-1))


def _speedup_columns(row: ScoreRow) -> tuple[float | None, ...]:
    return (row["tokens"], row["lm_seconds"], row["baseline_tokens"], row["baseline_seconds"])


def _decode_columns(row: ScoreRow) -> tuple[float | None, ...]:
    """Return the columns of `_speedup_columns` without prefill and first token."""

    def after_prefill(tokens: str, seconds: str, prefill: str) -> tuple[float | None, float | None]:
        if row[seconds] is None or row[prefill] is None:
            return None, None
        return row[tokens] - 1, row[seconds] - row[prefill]

    own = after_prefill("tokens", "lm_seconds", "prefill_seconds")
    return own + after_prefill("baseline_tokens", "baseline_seconds", "baseline_prefill_seconds")


def _instrumented(name: str, weight: str = "positions") -> Columns:
    """Return columns of the instrumented decode whose ratio of sums is a mean over positions."""

    def columns(row: ScoreRow) -> tuple[float | None, ...]:
        values, weights = row[name], row[weight]
        return (None, None) if values is None or weights is None else (sum(values), sum(weights))

    return columns


def _emitted(row: ScoreRow) -> tuple[float | None, ...]:
    """Return tokens that rounds emitted (the prefill's is not among them), and rounds."""
    return (total(row, "accepted", "residuals", "bonuses"), row["rounds"])


def _share(part: str) -> Columns:
    """Return the columns for the share of one part in the rounds' seconds."""
    return lambda row: (row[part], total(row, *SPLIT))


def _stopped_at_max(row: ScoreRow) -> tuple[float | None, ...]:
    return (None if row["stop"] is None else float(row["stop"] == "max_length"), 1.0)


def _end_to_end(row: ScoreRow) -> tuple[float | None, ...]:
    """Return seconds of LM, codec and further layers of codes, and seconds of audio."""
    seconds = total(row, "lm_seconds", "codec_seconds")
    return (None if seconds is None else seconds + (row["nar_seconds"] or 0), row["audio_seconds"])


def _vocoder(row: ScoreRow) -> tuple[float | None, ...]:
    flow, whole = row["flow_seconds"], row["codec_seconds"]
    return (None if flow is None or whole is None else whole - flow, row["audio_seconds"])


END_TO_END = (
    "End-to-end RTF is seconds of all parts over seconds of audio made: LM, further layers of "
    "codes and codec (flow and vocoder, where it has them); encoding the prompt is not in it."
)
SHARES = (
    "Draft, verify and accept are shares of a round's seconds (native rounds clock themselves as "
    "they are timed, others in an instrumented decode); the rule's work is in accept."
)
LENGTH = (
    "Acceptance length is tokens emitted by rounds over rounds, residual and bonus tokens included "
    "and the prefill's token not (vLLM's convention); without bonus it is accepted drafts over "
    "rounds."
)
STREAM = (
    "A stream is played from its first piece on; a gap is silence because the next piece was not "
    "there in time (an underrun). Its seconds are from the request to the piece, prefill and codec "
    "included, encoding the prompt not."
)
DISTORTION = (
    "TV and KL are the total variation and Kullback-Leibler divergence from the target's "
    "next-token distribution to the emitted one, mean over verified positions."
)

_rtf = partial(Metric, digits=3, better=LOWER, timed=True)
_part = partial(_rtf, caption=END_TO_END)
_faster = partial(Metric, better=HIGHER, timed=True)
_percent = partial(Metric, digits=0, scale=100.0)
_part_of_round = partial(_percent, caption=SHARES, timed=True)
_stream = partial(Metric, better=LOWER, caption=STREAM, timed=True)

METRICS: dict[str, Metric] = {  # in the order of captions and lists
    "stopped_at_max": _percent(
        "at max length %",
        digits=1,
        better=LOWER,
        caption="At max length are utterances that were cut off instead of ending.",
        columns=_stopped_at_max,
        listed=True,
    ),
    "length_ratio": Metric(
        "length ratio",
        3,
        caption="Length ratio is seconds of output over seconds of the recording.",
        columns=over("audio_seconds", "reference_seconds"),
        listed=True,
    ),
    "lm_rtf": _rtf(
        "LM-RTF",
        caption="LM-RTF is language-model seconds over seconds of audio made, prefill included.",
        columns=over("lm_seconds", "audio_seconds"),
        listed=True,
    ),
    "rtf": _part("end-to-end RTF", columns=_end_to_end),
    "codec_rtf": _part("codec RTF", columns=over("codec_seconds", "audio_seconds")),
    "flow_rtf": _part("flow RTF", columns=over("flow_seconds", "audio_seconds")),
    "vocoder_rtf": _part("vocoder RTF", columns=_vocoder),
    "time_per_token_ms": Metric(
        "ms per token", better=LOWER, timed=True, columns=over("lm_seconds", "tokens", scale=1000.0)
    ),
    "tokens_per_second": _faster("tokens/s", 1, columns=over("tokens", "lm_seconds")),
    "speedup": _faster(
        "speedup",
        caption=(
            "Speedup is tokens per second over those of the target alone decoding the same "
            "utterances autoregressively in the same engine and process."
        ),
        columns=_speedup_columns,
        statistic=speedup,
        listed=True,
        compared=True,
    ),
    "tpot_speedup": _faster(
        "TPOT speedup",
        caption=(
            "TPOT speedup compares time per output token alike, without prefill and first token."
        ),
        columns=_decode_columns,
        statistic=speedup,
    ),
    "prefill_share": _percent(
        "prefill %",
        caption="Prefill is the share of language-model seconds until the first token.",
        timed=True,
        columns=over("prefill_seconds", "lm_seconds"),
    ),
    "speedup_seconds": _faster(
        "speedup in seconds",
        caption="Speedup in seconds compares whole utterances, whatever their lengths.",
        columns=over("baseline_seconds", "lm_seconds"),
    ),
    "swapped": _percent(
        "swapped %",
        digits=1,
        caption="Swapped tokens are those that another token of their group replaced.",
        columns=over("swapped", "tokens"),
    ),
    "draft_share": _part_of_round("draft %", columns=_share("draft_seconds")),
    "verify_share": _part_of_round("verify %", columns=_share("verify_seconds")),
    "accept_share": _part_of_round("accept %", digits=1, columns=_share("accept_seconds")),
    "expected_trials": Metric(  # draws of PCG's thinning after a rejection
        "thinning's draws", columns=_instrumented("expected_trials", "expected_rejections")
    ),
    "acceptance_rate": Metric(
        "acceptance rate",
        3,
        better=HIGHER,
        caption="Acceptance rate is accepted over drafted tokens.",
        columns=over("accepted", "drafted"),
        listed=True,
    ),
    "acceptance_length": Metric(
        "acceptance length", better=HIGHER, caption=LENGTH, columns=_emitted
    ),
    "acceptance_length_without_bonus": Metric(
        "acceptance length without bonus",
        better=HIGHER,
        caption=LENGTH,
        columns=over("accepted", "rounds"),
    ),
    "tv": Metric("TV", 3, better=LOWER, caption=DISTORTION, columns=_instrumented("tv")),
    "kl": Metric(
        "KL", 3, unit="nats", better=LOWER, caption=DISTORTION, columns=_instrumented("kl")
    ),
    "first_audio_ms": _stream("first audio ms", 1, columns=each("first_audio_ms")),
    "stream_rtf": _rtf(
        "real-time factor",
        caption="Real-time factor is a stream's seconds over seconds of its audio.",
        columns=over("stream_seconds", "stream_audio_seconds"),
    ),
    "gaps": _stream("gaps an utterance", columns=each("gaps")),
    "gap_ms": _stream("ms of gaps", 1, columns=each("gap_ms")),
}


def per_position(rows: list[ScoreRow]) -> dict[str, list[float | None]]:
    """Return acceptance, TV and KL by position in the draft; lists may be empty."""
    return {
        "acceptance": _by_depth(rows, "accepted_per_position", "drafted_per_position"),
        "tv": _by_depth(rows, "tv", "positions"),
        "kl": _by_depth(rows, "kl", "positions"),
    }


def _by_depth(rows: list[ScoreRow], numerator: str, denominator: str) -> list[float | None]:
    pairs = [(row[numerator] or [], row[denominator] or []) for row in rows]
    depth = max((len(column) for pair in pairs for column in pair), default=0)
    tops, bottoms = np.zeros(depth), np.zeros(depth)
    for top, bottom in pairs:
        tops[: len(top)] += top
        bottoms[: len(bottom)] += bottom
    values = ratio(np.stack([tops, bottoms], axis=-1))
    return [float(value) if np.isfinite(value) else None for value in values]
