"""Plan each rater's trials, balanced over raters, utterances, systems and positions."""

from dataclasses import dataclass

import numpy as np

from speculative_tts.schema.listen import ListeningTest

PAIRS = (ListeningTest.cmos, ListeningTest.ab)


@dataclass(frozen=True)
class PlannedTrial:
    """One trial: an utterance by one system, or by a pair in this order."""

    utterance: int
    systems: tuple[int, ...]


def williams(n: int) -> list[list[int]]:
    """Return a balanced Latin square (Williams, 1949): orders of n systems.

    Each system is equally often in each place, and follows each other one equally often. There are
    n rows where n is even, 2 n where it is odd.
    """
    first = [(k + 1) // 2 if k % 2 else (n - k // 2) % n for k in range(n)]
    rows = [[(one + shift) % n for one in first] for shift in range(n)]
    return rows if n % 2 == 0 else rows + [row[::-1] for row in rows]


def presentations(test: ListeningTest, systems: int) -> list[tuple[int, ...]]:
    """Return the system tuples an utterance is presented by: each alone, or against the first."""
    if test in PAIRS:
        return [(0, other) for other in range(1, systems)]
    return [(system,) for system in range(systems)]


def assign(
    test: ListeningTest,
    *,
    raters: int,
    samples: int,
    utterances: int,
    systems: int,
    rng: np.random.Generator,
) -> list[list[PlannedTrial]]:
    """Return the trials of every rater.

    A rater hears `samples` utterances, each by every system; a rater continues where the one before
    stopped, so all utterances are heard equally often (give or take one rater). The order of
    systems is a row of the Williams square, another one for each utterance and rater. An utterance
    comes back only after all others.
    """
    if samples > utterances:
        raise ValueError(
            f"samples={samples} is more than the {utterances} utterances that all systems spoke; "
            f"give samples={utterances}, or other systems"
        )
    shown_as = presentations(test, systems)
    square = williams(len(shown_as))
    plan = []
    for rater in range(raters):
        order = rng.permutation(samples)
        trials = []
        for place in range(len(shown_as)):
            for k in order:
                lap, utterance = divmod(rater * samples + int(k), utterances)
                row = square[(rater + int(k) + lap) % len(square)]
                shown = shown_as[row[place]]
                turned = (rater + int(k) + place) % 2  # a pair is heard both ways equally often
                trials.append(PlannedTrial(utterance, shown[::-1] if turned else shown))
        plan.append(trials)
    return plan


def check_places(trials: int, checks: int) -> list[int]:
    """Return the places of checks among trials: evenly spread, none at the beginning."""
    return [(i + 1) * trials // (checks + 1) for i in range(checks)]
