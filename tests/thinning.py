"""One position of PCG as the paper writes it: the readable reference of `decoding.rules.group`.

Yanuka et al., 2025, arXiv 2511.13732.

The group after a rejection is drawn by thinning: draws from the target, each kept with probability
[1 - P_c / Q_c]_+. Plain Python over plain sequences; slow. The expected number of draws is 1 /
TV(P_c, Q_c).
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

Noise = Callable[[], float]  # a fresh uniform in [0, 1) at each call


@dataclass(frozen=True)
class Emission:
    """The token that one position emits, and how it came about."""

    token: int
    group: int
    accepted: bool
    trials: int  # draws of thinning; 0 after an acceptance


@dataclass(frozen=True)
class Groups:
    """Tokens of each group, and a score a group that splits a token among its groups."""

    members: Sequence[Sequence[int]]
    scores: Sequence[float]

    def of(self, token: int) -> list[int]:
        """S(t), the groups of a token."""
        return [k for k, tokens in enumerate(self.members) if token in tokens]

    def weight(self, group: int, token: int) -> float:
        """w[k, t]."""
        return self.scores[group] / sum(self.scores[k] for k in self.of(token))

    def coarse(self, probs: Sequence[float], group: int) -> float:
        """sum_t w[k, t] probs(t)."""
        return sum(probs[t] * self.weight(group, t) for t in self.members[group])


def emit(
    groups: Groups, target: Sequence[float], draft: Sequence[float], drafted: int, noise: Noise
) -> Emission:
    """Accept the drafted token, or draw another; `target` and `draft` are laws over the vocabulary.

    Uniforms are used in this order: group of the drafted token, acceptance, then (token, group,
    kept) of each trial, token.
    """
    group = _choose(groups.of(drafted), lambda k: groups.weight(k, drafted), noise())
    if noise() * groups.coarse(draft, group) < groups.coarse(target, group):
        return Emission(drafted, group, accepted=True, trials=0)
    trials, kept = 0, False
    while not kept:
        trials += 1
        other = _choose(range(len(target)), target.__getitem__, noise())
        group = _choose(groups.of(other), lambda k: groups.weight(k, other), noise())  # noqa: B023 - called at once
        kept = noise() < 1 - groups.coarse(draft, group) / groups.coarse(target, group)
    token = _choose(groups.members[group], lambda t: target[t] * groups.weight(group, t), noise())
    return Emission(token, group, accepted=False, trials=trials)


def _choose(items: Sequence[int], mass: Callable[[int], float], uniform: float) -> int:
    """Inverse-CDF draw of an item by its mass; an item without mass is never drawn."""
    sums = list(accumulate(map(mass, items)))
    return items[bisect_right(sums, uniform * sums[-1])]
