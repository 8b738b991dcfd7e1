"""Laws that hypothesis draws, and what a rule's uniform decides, for property tests of rules."""

from collections.abc import Callable

import torch
from hypothesis import strategies as st
from torch import Tensor

LAST = 1 - 2**-53  # the greatest uniform


def drawn_laws(draw: st.DrawFn, rows: int, vocab: int) -> tuple[Tensor, Tensor]:
    """Target and draft laws [rows, vocab] in float64: zeros, one-hots, ties and near-equal ones."""
    weight = st.one_of(st.just(0.0), st.just(1.0), st.floats(1e-9, 1.0))
    table = st.lists(weight, min_size=rows * vocab, max_size=rows * vocab)

    def law() -> Tensor:
        mass = torch.tensor(draw(table), dtype=torch.float64).view(rows, vocab)
        mass[mass.sum(-1) == 0, draw(st.integers(0, vocab - 1))] = 1.0
        return mass / mass.sum(-1, keepdim=True)

    return law(), law()


def threshold(passes: Callable[[float], bool]) -> float:
    """Probability that a uniform of [0, 1) passes, where all below some number do: by bisection."""
    if not passes(0.0):
        return 0.0
    if passes(LAST):
        return 1.0
    low, high = 0.0, 1.0
    while high - low > 1e-16 and low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if passes(middle) else (low, middle)
    return high
