from itertools import combinations, product

from pairwise import pairwise


def test_every_pair_is_there_in_few_cases() -> None:
    axes = ("abcde", (1, 3, 6), (True, None), range(10, 16))
    cases = pairwise(*axes)
    for (one, first), (two, second) in combinations(enumerate(axes), 2):
        assert {(case[one], case[two]) for case in cases} == set(product(first, second))
    assert len(cases) == len(set(cases)) < 40  # of 180; the two longest axes alone have 30
