"""Who hears what: balanced over raters, utterances, systems, places and neighbours."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from speculative_tts.listening.design import PlannedTrial, assign, check_places, williams
from speculative_tts.schema.listen import ListeningTest


def plan(
    test: ListeningTest, raters: int, samples: int, utterances: int, systems: int
) -> list[list[PlannedTrial]]:
    rng = np.random.default_rng(0)
    return assign(
        test, raters=raters, samples=samples, utterances=utterances, systems=systems, rng=rng
    )


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7])
def test_the_square_is_balanced(n: int) -> None:
    rows = williams(n)
    assert all(sorted(row) == list(range(n)) for row in rows)
    for place in range(n):
        assert set(Counter(row[place] for row in rows).values()) == {len(rows) // n}
    followed = Counter(pair for row in rows for pair in pairwise(row))
    assert len(followed) == n * (n - 1)
    assert len(set(followed.values())) <= 1


@pytest.mark.parametrize(("systems", "utterances"), [(3, 30), (2, 17), (4, 60), (3, 10)])
def test_ratings_are_balanced(systems: int, utterances: int) -> None:
    raters, samples = 30, 10
    trials = plan(ListeningTest.mos, raters, samples, utterances, systems)
    for own in trials:
        assert len(own) == samples * systems
        assert len(set(own)) == len(own)
        assert set(Counter(one.systems for one in own).values()) == {samples}
        for first, second in pairwise(own):  # a sentence does not follow itself
            assert first.utterance != second.utterance
    heard = Counter(one.utterance for own in trials for one in own)
    assert max(heard.values()) - min(heard.values()) <= systems
    for place in range(systems):  # of the times an utterance comes round
        turn = slice(place * samples, (place + 1) * samples)
        counts = Counter(one.systems for own in trials for one in own[turn])
        assert max(counts.values()) - min(counts.values()) <= raters / 3
        assert len(counts) == systems


def test_pairs_come_both_ways_round() -> None:
    trials = plan(ListeningTest.ab, 20, 8, 16, 3)
    ways = Counter(one.systems for own in trials for one in own)
    assert set(ways) == {(0, 1), (1, 0), (0, 2), (2, 0)}
    assert max(ways.values()) - min(ways.values()) <= 8


def test_checks_are_spread_and_none_is_first() -> None:
    assert check_places(30, 4) == [6, 12, 18, 24]
    assert check_places(2, 4) == [0, 0, 1, 1] or min(check_places(2, 4)) >= 0
    assert check_places(10, 0) == []


def test_more_samples_than_utterances() -> None:
    with pytest.raises(ValueError, match=r"samples=10 is more than the 4 utterances .* samples=4"):
        plan(ListeningTest.mos, 3, 10, 4, 2)
