"""Groups for tests: small covers as lists, rules over them, faults, and their laws by the paper."""

from dataclasses import dataclass

import torch
from torch import Tensor

from speculative_tts.caches.groups import transpose
from speculative_tts.decoding.rules.group import Group


@dataclass(frozen=True)
class Cover:
    """Overlapping groups of a small vocabulary."""

    vocab: int
    members: tuple[tuple[int, ...], ...]  # ascending
    scores: tuple[float, ...]

    def weights(self) -> Tensor:
        """w[k, x], float64 [groups, vocab]; from the definition, not from the rule."""
        table = torch.zeros(len(self.members), self.vocab, dtype=torch.float64)
        for group, tokens in enumerate(self.members):
            table[group, list(tokens)] = torch.tensor(self.scores[group]).double()
        return table / table.sum(0)

    def masses(self, q: list[float], p: list[float]) -> tuple[list[float], list[float]]:
        """`parts`, as `reference.speculative_law` asks for them."""
        laws = (torch.tensor(law, dtype=torch.float64) for law in (q, p))
        accepted, drawn = parts(self.weights(), *laws)
        return accepted.tolist(), drawn.where(drawn > 1e-15, 0.0).tolist()

    def rule(self, kind: type[Group] = Group) -> Group:
        sizes = torch.tensor([0, *map(len, self.members)])
        offsets = sizes.cumsum(0).int()
        tokens = torch.tensor([t for group in self.members for t in group]).int()
        back = transpose(offsets, tokens, self.vocab)
        return kind(*back, offsets, tokens, torch.tensor(self.scores))


class TokenResidual(Group):
    """After a rejection a token by the residual of tokens, not of groups."""

    def residual(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:
        return (target_probs - draft_probs).clamp(min=0)


class Unnormalised(Group):
    """Every membership has weight 1: a token in two groups counts twice."""

    def __init__(self, *arrays: Tensor) -> None:
        super().__init__(*arrays)
        self._total = torch.ones_like(self._total)
        self._scores = torch.ones_like(self._scores)


class FirstGroup(Group):
    """The coupling is forgotten: always the first group of a token."""

    def draw_group(self, tokens: Tensor, uniform: Tensor) -> Tensor:
        return super().draw_group(tokens, torch.zeros_like(uniform))


FAULTS = {
    "token residual": TokenResidual,
    "unnormalised weights": Unnormalised,
    "group not drawn by its weights": FirstGroup,
}


def random_cover(vocab: int, seed: int, *, equal: bool = False) -> Cover:
    """Groups of all sizes that overlap and cover; some tokens alone, some sets twice."""
    generator = torch.Generator().manual_seed(seed)

    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (1,), generator=generator))

    groups = []
    for _ in range(number(1, vocab)):
        order = torch.randperm(vocab, generator=generator)
        groups.append(tuple(sorted(order[: number(1, vocab)].tolist())))
    covered = {token for group in groups for token in group}
    groups += [(token,) for token in range(vocab) if token not in covered]
    scores = torch.rand(len(groups), generator=generator) * 3 + 0.01
    return Cover(vocab, tuple(groups), tuple([1.0] * len(groups) if equal else scores.tolist()))


def singletons(vocab: int) -> Cover:
    return Cover(vocab, tuple((token,) for token in range(vocab)), (1.0,) * vocab)


def parts(weights: Tensor, q: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """Mass of each token accepted, and drawn after a rejection, by the paper's formulas."""
    q_c, p_c = weights @ q, weights @ p
    ratio = torch.where(p_c > 0, q_c / p_c, 1.0).clamp(max=1)
    share = torch.where(q_c > 0, (q_c - p_c).clamp(min=0) / q_c, 0.0)
    return p * (weights.T @ ratio), q * (weights.T @ share)
