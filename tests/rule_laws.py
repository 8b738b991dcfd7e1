"""Every rule over plain floats, written from the papers' formulas: the chance that a drafted x
passes, and the distribution of the token after its rejection.

`CASES` has each rule by its name; a new one is added here, and the property, statistical and
registry tests follow.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, Protocol

import torch
from faults import Difference, NoResidual, Wrapped
from group_laws import Cover

from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Tolerance
from speculative_tts.decoding.rules.relaxed import Divergence, Dynamic, Neighbours, Top, Typical
from speculative_tts.schema.kinds import Kind, kinds
from speculative_tts.schema.rules import RuleConfig

Floats = list[float]
# Of six tokens in a plane: 0, 1 and 3 are close, 2 and 4 are, 5 (a stop id) has no place.
PLANE = ((1.0, 0.0), (0.9, 0.3), (-0.2, 1.0), (1.0, -0.3), (-0.4, 0.9))
NEAREST = ((1, 3), (0, 3), (4, 1), (0, 1), (2, 0), (5, 5))  # the own id: none
VECTORS = torch.tensor([*PLANE, (math.nan, math.nan)], dtype=torch.float64)


class Case(Protocol):
    """A rule, and what one position emits by its paper."""

    @property
    def rule(self) -> AcceptanceRule: ...

    @property
    def fault(self) -> type[Wrapped]:
        """A wrong residual that the chi-square must find."""
        ...

    def masses(self, q: Floats, p: Floats) -> tuple[Floats, Floats]:
        """Probabilities of emitting each token accepted, and drawn after a rejection."""
        ...


@dataclass(frozen=True)
class ByMasses:
    """A rule whose masses are given as a whole."""

    rule: AcceptanceRule
    emitted: Callable[[Floats, Floats], tuple[Floats, Floats]]
    fault: type[Wrapped] = Difference

    def masses(self, q: Floats, p: Floats) -> tuple[Floats, Floats]:
        return self.emitted(q, p)


@dataclass(frozen=True)
class ByChance:
    """A rule, and its chance a(q, p, x) and mass(q, p, x) of the token after x's rejection."""

    rule: AcceptanceRule
    chance: Callable[[Floats, Floats, int], float]
    after: Callable[[Floats, Floats, int], Floats] = lambda q, p, x: q
    fault: type[Wrapped] = Difference

    def masses(self, q: Floats, p: Floats) -> tuple[Floats, Floats]:
        """Probabilities of emitting each token accepted, and drawn after a rejection."""
        accepted, drawn = [0.0] * len(q), [0.0] * len(q)
        for x, drafted in enumerate(p):
            if drafted > 0:
                chance = self.chance(q, p, x)
                accepted[x] = drafted * chance
                for y, mass in enumerate(self.law_after(q, p, x)):
                    drawn[y] += drafted * (1 - chance) * mass
        return accepted, drawn

    def law_after(self, q: Floats, p: Floats, x: int) -> Floats:
        """Normalised; the target where there is no mass."""
        mass = self.after(q, p, x)
        total = math.fsum(mass)
        return [m / total for m in mass] if total > 0 else q


def positive(q: Floats, p: Floats, x: int) -> Floats:
    return [max(a - b, 0.0) for a, b in zip(q, p, strict=True)]


def tolerance(beta: float) -> ByChance:
    def chance(q: Floats, p: Floats, x: int) -> float:
        return min(1.0, min(1.0, q[x] / p[x]) + beta)

    return ByChance(Tolerance(beta), chance, positive, NoResidual)


def typical(q: Floats, p: Floats, x: int) -> float:
    entropy = -math.fsum(a * math.log(a) for a in q if a > 0)
    return float(q[x] > min(0.3, 0.6 * math.exp(-entropy)))


def top(q: Floats, p: Floats, x: int) -> float:
    likelier = sum(a > q[x] for a in q)
    return float(q[x] > 0 and likelier < 3 and q[x] >= max(q) - 0.25)


def divergence(q: Floats, p: Floats, x: int) -> float:
    def to_middle(law: Floats) -> float:
        pairs = zip(law, [(a + b) / 2 for a, b in zip(q, p, strict=True)], strict=True)
        return math.fsum(a * math.log(a / m) for a, m in pairs if a > 0)

    return float((to_middle(q) + to_middle(p)) / 2 <= 0.0731)


def lenders(q: Floats, x: int, ratio: float | None) -> set[int]:
    """LANTERN's A(x), x not among them."""
    found, mass = set(), 0.0
    most = 0.2 if ratio is None else (ratio - 1) * q[x]
    for y in NEAREST[x]:
        mass += q[y]
        if y == x or mass > most:
            break
        found.add(y)
    return found


def neighbours(ratio: float | None) -> ByChance:
    def chance(q: Floats, p: Floats, x: int) -> float:
        return min(1.0, (q[x] + math.fsum(q[y] for y in lenders(q, x, ratio))) / p[x])

    def after(q: Floats, p: Floats, x: int) -> Floats:
        moved = list(q)
        for y in lenders(q, x, ratio):
            moved[x], moved[y] = moved[x] + q[y], 0.0
        return positive(moved, p, x)

    return ByChance(Neighbours(torch.tensor(NEAREST), 0.2, ratio), chance, after)


def dynamic(q: Floats, p: Floats, x: int) -> float:
    order = sorted(range(len(q)), key=lambda y: -q[y])
    place = order.index(x)
    alike = {x}
    for y in order[max(place - 2, 0) : place + 3]:
        near = x < len(PLANE) and y < len(PLANE) and math.dist(PLANE[x], PLANE[y]) ** 2 < 0.6
        if near and abs(q[y] - q[x]) < 0.15:
            alike.add(y)
    return min(1.0, math.fsum(q[y] for y in alike) / math.fsum(p[y] for y in alike))


COVER = Cover(6, ((0, 1, 3), (1, 4), (2,), (3, 4), (5,)), (1.0, 1.0, 1.0, 1.0, 1.0))
RELAXED = {
    "typical": [ByChance(Typical(0.3, 0.6), typical)],
    "top": [ByChance(Top(3, 0.25), top)],
    "divergence": [ByChance(Divergence(0.0731), divergence)],
    "neighbours": [neighbours(None), neighbours(1.5)],
    "dynamic": [ByChance(Dynamic(VECTORS, 2, 0.15, 0.6), dynamic, positive, NoResidual)],
}
CASES: dict[str, Sequence[Case]] = {
    "exact": [tolerance(0.0)],
    "tolerance": [tolerance(0.4)],
    "group": [ByMasses(COVER.rule(), COVER.masses)],
    **RELAXED,
}


def built(settings: Kind, parts: Any) -> Any:
    """Return what settings describe, as `Builder` does."""
    return resolve_name(settings.built_by)(settings, parts)


def shipped_rules() -> dict[str, type[RuleConfig]]:
    """Rules of the package by name, without those that other tests add from outside."""
    own = RuleConfig.__module__.partition(".")[0]
    return {
        name: kind
        for name, kind in kinds(RuleConfig).items()
        if kind.__module__.partition(".")[0] == own
    }
