"""Score a test's answers: means with intervals, differences, agreement, and figures for tables."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from speculative_tts.evaluation.ratings import MeanRating, write_rating
from speculative_tts.evaluation.statistics import LEVEL, Measure, holm
from speculative_tts.listening.answers import RatedTrial, Screened
from speculative_tts.listening.crossed import Spread, cross
from speculative_tts.listening.design import PAIRS
from speculative_tts.listening.key import Key
from speculative_tts.schema.listen import ListeningTest
from speculative_tts.typed import write_json

DIFFERENCE = ("value", "low", "high", "p", "n")  # what is written of one
Rating = tuple[str, str, float]  # rater, utterance, value
Level = Literal["nominal", "ordinal"]  # of measurement, for Krippendorff's alpha
AGREEMENT: dict[ListeningTest, Level] = {
    ListeningTest.mos: "ordinal",
    ListeningTest.smos: "ordinal",
    ListeningTest.cmos: "ordinal",
    ListeningTest.ab: "nominal",
}


class RatedItem(NamedTuple):
    """A rater's value of a system: `item` names what was heard, in any order."""

    rater: str
    item: str
    utterance: str
    system: str
    value: float


@dataclass(frozen=True)
class Pair:
    """Difference between a system and the baseline, by raters who heard both."""

    baseline: str
    system: str
    difference: Measure
    p_holm: float | None
    spread: Spread
    preferred: tuple[int, int, int] | None = None  # votes for baseline, neither, system


@dataclass(frozen=True)
class Scores:
    """All figures of a test."""

    means: dict[str, MeanRating]  # by system
    pairs: tuple[Pair, ...]
    alpha: float | None
    raters: int
    screened: Screened


def score(key: Key, screened: Screened, draws: int, seed: int) -> Scores:
    """Compute the figures of the raters who count; raise ValueError when none does."""
    if not screened.counted:
        raise ValueError(f"no rater counts: {'; '.join(screened.reasons)}; ask more raters")
    opinions = list(_opinions(key, screened.counted))
    said: dict[str, list[Rating]] = {one.name: [] for one in key.systems}
    for one in opinions:
        said[one.system].append((one.rater, one.utterance, one.value))
    differences = said if key.test in PAIRS else _differences(key, said)
    ratings = {} if key.test in PAIRS else {name: own for name, own in said.items() if own}
    means = {name: _mean(key, own, draws, seed) for name, own in ratings.items()}
    by_system = {name: cross(rows) for name, rows in differences.items() if rows}
    estimates = {name: one.estimate(draws, seed) for name, one in by_system.items()}
    corrected = holm([1.0 if one.p is None else one.p for one in estimates.values()])
    pairs = [
        Pair(
            key.systems[0].name,
            name,
            one,
            None if one.p is None else p,
            by_system[name].spread(),
            _votes(differences[name]) if key.test in PAIRS else None,
        )
        for (name, one), p in zip(estimates.items(), corrected, strict=True)
    ]
    agreement = alpha(opinions, AGREEMENT[key.test])
    return Scores(means, tuple(pairs), agreement, len(screened.counted), screened)


def _opinions(key: Key, counted: Mapping[str, Sequence[RatedTrial]]) -> Iterator[RatedItem]:
    """Yield what each rater said of a system, checks left out.

    Of a pair it is how far the other system was preferred to the baseline.
    """
    for rater, rated in counted.items():
        for one in rated:
            if key.is_check(one.trial):
                continue
            *_, last = clips = [key.clips[name] for name in one.trial.clips]
            turned = len(clips) == 2 and last.system == key.systems[0].name
            judged, value = (clips[0], -one.values[0]) if turned else (last, one.values[0])
            item = " ".join(sorted(one.trial.clips))
            yield RatedItem(rater, item, judged.utterance, judged.system, value)


def _differences(key: Key, ratings: Mapping[str, Sequence[Rating]]) -> dict[str, list[Rating]]:
    """Subtract from each system's ratings the baseline's by the same rater on the same words.

    Effects of the rater and of the sentence cancel.
    """
    baseline = {row[:2]: row[2] for row in ratings[key.systems[0].name]}
    return {
        one.name: [
            (rater, utterance, value - baseline[rater, utterance])
            for rater, utterance, value in ratings[one.name]
            if (rater, utterance) in baseline
        ]
        for one in key.systems[1:]
    }


def _votes(rows: Iterable[Rating]) -> tuple[int, int, int]:
    values = [row[2] for row in rows]
    return sum(v < 0 for v in values), sum(v == 0 for v in values), sum(v > 0 for v in values)


def _mean(key: Key, rows: Sequence[Rating], draws: int, seed: int) -> MeanRating:
    from scipy import stats

    one = cross(rows).estimate(draws, seed)
    values = np.array([row[2] for row in rows])
    n, half, sd = len(values), None, None
    if n > 1:
        sd = float(values.std(ddof=1))
        half = float(stats.t.ppf((1 + LEVEL) / 2, n - 1)) * sd / n**0.5
    assert one.value is not None
    raters = len({row[0] for row in rows})
    return MeanRating(one.value, one.low, one.high, half, sd, n, raters, key.id)


def alpha(opinions: Iterable[RatedItem], level: Level) -> float | None:
    """Return Krippendorff's alpha of raters who judged the same clips; None if nothing differs."""
    import krippendorff

    rows: dict[str, dict[str, float]] = defaultdict(dict)
    for one in opinions:
        rows[one.rater][one.item] = one.value
    items = sorted({item for own in rows.values() for item in own})
    table = np.array([[own.get(item, np.nan) for item in items] for own in rows.values()])
    table = table.reshape(len(rows), len(items))
    several = np.sum(~np.isnan(table), axis=0) > 1
    known = table[:, several]
    if np.unique(known[~np.isnan(known)]).size < 2:
        return None
    return float(krippendorff.alpha(reliability_data=known, level_of_measurement=level))


def write(folder: Path, key: Key, scores: Scores) -> tuple[list[Path], list[Path]]:
    """Write scores.json into the test's folder, and a figure into each run's for sst-report.

    Return the written files, and the folders of runs that are gone.
    """
    whole = asdict(scores)
    del whole["screened"]["counted"]
    for pair in whole["pairs"]:
        pair["difference"] = {name: pair["difference"][name] for name in DIFFERENCE}
    whole["left_out"] = whole.pop("screened")
    written = [folder / "scores.json"]
    write_json(written[0], {"test": key.test.name, "id": key.id, **whole})
    gone = []
    for system in key.systems:
        place, mean = Path(system.folder), scores.means.get(system.name)
        if mean is None or not system.run:
            continue
        if place.is_dir():
            written.append(write_rating(place, key.test.name, mean))
        else:
            gone.append(place)
    return written, gone
