"""Few cases in the place of all: a fault that needs three settings at once is rare."""

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any


def pairwise(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return cases of a value per axis that hold every pair of values of any two axes."""
    values = [list(axis) for axis in axes]
    cases = product(*(range(len(axis)) for axis in values))
    pairs = {case: set(combinations(enumerate(case), 2)) for case in cases}
    chosen, missing = [], set().union(*pairs.values())
    while missing:
        chosen.append(max(pairs, key=lambda case: len(pairs[case] & missing)))
        missing -= pairs[chosen[-1]]
    return [tuple(axis[at] for axis, at in zip(values, case, strict=True)) for case in chosen]
