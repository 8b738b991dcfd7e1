"""Who hears what, in which order: balanced over raters, utterances, systems and positions."""

from dataclasses import dataclass

import numpy as np

from speculative_tts.schema.listen import ListeningTest

PAIRS = (ListeningTest.cmos, ListeningTest.ab)


@dataclass(frozen=True)
class Heard:
    """One trial: an utterance by one system, by a pair in this order, or by all of them."""

    utterance: int
    systems: tuple[int, ...]


def williams(n: int) -> list[list[int]]:
    """A balanced Latin square (Williams, 1949): orders of n systems.

    Each system stands equally often in each place, and each follows each other one equally often.
    n rows where n is even, 2 n where it is odd.
    """
    first = [(k + 1) // 2 if k % 2 else (n - k // 2) % n for k in range(n)]
    rows = [[(one + shift) % n for one in first] for shift in range(n)]
    return rows if n % 2 == 0 else rows + [row[::-1] for row in rows]


def choices(test: ListeningTest, systems: int) -> list[tuple[int, ...]]:
    """What an utterance is heard as: each system, each other one against the first, or all."""
    if test in PAIRS:
        return [(0, other) for other in range(1, systems)]
    if test is ListeningTest.mushra:
        return [tuple(range(systems))]
    return [(system,) for system in range(systems)]


def assign(
    test: ListeningTest,
    *,
    raters: int,
    samples: int,
    utterances: int,
    systems: int,
    rng: np.random.Generator,
) -> list[list[Heard]]:
    """The trials of every rater.

    A rater hears `samples` utterances, each by every system; neighbouring raters go on where the
    one before stopped, so all utterances are heard equally often (give or take one rater). Which
    system comes first, second, ... is a row of the Williams square, another for each utterance and
    rater. The same utterance comes back after all others have been heard.
    """
    if samples > utterances:
        raise ValueError(
            f"samples={samples} is more than the {utterances} utterances that all systems spoke; "
            f"give samples={utterances}, or other systems"
        )
    heard_as = choices(test, systems)
    square = williams(len(heard_as))
    plan = []
    for rater in range(raters):
        order = rng.permutation(samples)
        trials = []
        for place in range(len(heard_as)):
            for k in order:
                lap, utterance = divmod(rater * samples + int(k), utterances)
                row = square[(rater + int(k) + lap) % len(square)]
                shown = heard_as[row[place]]
                trials.append(Heard(utterance, _order(test, shown, rater + int(k) + place, rng)))
        plan.append(trials)
    return plan


def _order(
    test: ListeningTest, shown: tuple[int, ...], turn: int, rng: np.random.Generator
) -> tuple[int, ...]:
    """Pairs both ways round equally often; many in any order."""
    if test in PAIRS:
        return shown[::-1] if turn % 2 else shown
    return tuple(int(one) for one in rng.permutation(shown)) if len(shown) > 1 else shown


def places(trials: int, checks: int) -> list[int]:
    """Where checks stand among trials: evenly spread, none at the beginning."""
    return [(i + 1) * trials // (checks + 1) for i in range(checks)]
