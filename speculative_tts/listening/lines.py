"""Format what sst-listen prints: the scores of a test, and the power of a planned one."""

from speculative_tts.evaluation.ratings import MeanRating
from speculative_tts.evaluation.statistics import LEAST
from speculative_tts.listening.crossed import Spread, power_of, raters_for
from speculative_tts.listening.key import Key
from speculative_tts.listening.score import Pair, Scores
from speculative_tts.schema.listen import ListenConfig
from speculative_tts.texts import aligned

DIGITS = 3  # as in SSD's tables
WANTED = 0.8  # power


def score_lines(key: Key, scores: Scores) -> list[str]:
    """Return lines of means, differences, agreement, and how many raters would detect more."""
    lines = [f"{key.test.name}: {scores.raters} raters count", *scores.screened.reasons]
    if scores.means:
        heading = ["system", "mean", "± as SSD, MTP", "± as PCG", "95 %", "n"]
        lines += aligned([heading, *(_row(name, one) for name, one in scores.means.items())])
        lines.append(
            "±: half of a 95 % interval over ratings as if independent (SSD, MTP), their standard "
            "deviation (PCG); 95 %: raters and utterances drawn"
        )
    for one in scores.pairs:
        lines.append(_difference(one))
        if one.difference.low is not None:
            lines.append(f"  {_spread(one.spread)}; {_more(one.spread, key)}")
    if not scores.pairs or scores.pairs[0].difference.low is None:
        lines.append(f"no intervals below {LEAST} raters or utterances")
    if scores.alpha is not None:
        lines.append(f"agreement of raters, Krippendorff's alpha: {scores.alpha:.2f}")
    return lines


def power_lines(config: ListenConfig, pool: int | None) -> list[str]:
    """Return lines about the power of a planned test, and how many raters it needs.

    `pool` is the number of utterances in all; None: each rater has others.
    """
    spread = Spread(config.noise, config.between_raters, config.between_utterances)
    likely = power_of(config.difference, spread, config.raters, config.samples, pool)
    each = f"each {config.samples} " + (f"of {pool} utterances" if pool else "other utterances")
    return [
        (
            f"{config.raters} raters, {each}: a difference of {config.difference:g} "
            f"is found in {100 * likely:.0f} % of tests (two-sided, 5 %)"
        ),
        _enough(config.difference, spread, config.samples, pool),
        f"supposed {_spread(spread)}; sst-listen score prints those of your raters",
    ]


def _enough(difference: float, spread: Spread, samples: int, utterances: int | None = None) -> str:
    needed = raters_for(difference, spread, samples, utterances, WANTED)
    goal = f"{difference:g} in {100 * WANTED:.0f} % of tests"
    if needed is None:
        return f"no number of raters finds {goal} with so few utterances"
    return f"{needed} raters find {goal}"


def _more(spread: Spread, key: Key) -> str:
    pool = len({clip.utterance for clip in key.clips.values() if clip.system})
    return _enough(0.2, spread, key.samples, pool)


def _spread(one: Spread) -> str:
    return (
        f"standard deviations of a difference: noise={one.noise:.2f} "
        f"between_raters={one.raters:.2f} between_utterances={one.utterances:.2f}"
    )


def _difference(one: Pair) -> str:
    text = f"{one.system} minus {one.baseline}: {one.difference.value:+.{DIGITS}f}"
    if one.difference.low is not None and one.p_holm is not None:
        low, high = one.difference.low, one.difference.high
        p = "< 0.001" if one.p_holm < 0.001 else f"= {one.p_holm:.3f}"
        text += f" [{low:+.{DIGITS}f}, {high:+.{DIGITS}f}], p {p} (Holm)"
    if one.preferred:
        baseline, neither, system = one.preferred
        text += f"; preferred {system} times, the other {baseline}, neither {neither}"
    return text


def _row(name: str, one: MeanRating) -> list[str]:
    def around(value: float | None) -> str:
        return "-" if value is None else f"{one.value:.{DIGITS}f} ± {value:.{DIGITS}f}"

    interval = "-" if one.low is None else f"[{one.low:.{DIGITS}f}, {one.high:.{DIGITS}f}]"
    value = f"{one.value:.{DIGITS}f}"
    return [name, value, around(one.half), around(one.sd), interval, str(one.n)]
