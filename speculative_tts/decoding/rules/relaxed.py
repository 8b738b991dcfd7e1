"""Acceptance rules of others, each a chance a(x) that a drafted x passes: baselines.

With the papers' p = draft and q = target, both as the sampler leaves them (the authors' code looks
at temperature and top-k too). None has the target's law, but in the limits that their classes name;
`output_law` is the one that they have.
"""

from dataclasses import dataclass
from typing import Any, Self

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from speculative_tts.decoding.rules.acceptance import (
    Artefacts,
    Flags,
    Ids,
    Probs,
    TokenRule,
    Uniforms,
    entropy,
    normalised,
)

Some = Int64[Tensor, "*rows n"]
Chances = Float[Tensor, "*rows n"]
SOME = 512  # rejected tokens whose residuals are in memory at once


class ByChance(TokenRule):
    """Passes x iff u < a(x); after a rejection most draw from the target itself."""

    def chances(self, target_probs: Probs, draft_probs: Probs, tokens: Some) -> Chances:
        """Return the chance a(x) of some tokens of each row."""
        raise NotImplementedError

    def accept(
        self, target_probs: Probs, draft_probs: Probs, drafted: Ids, uniforms: Uniforms
    ) -> Flags:
        """See `AcceptanceRule`; a token without a distribution to draft it from never passes."""
        tokens = drafted[..., None]
        passes = uniforms[..., :1] < self.chances(target_probs, draft_probs, tokens)
        return (passes & (draft_probs.gather(-1, tokens) > 0))[..., 0]

    def accepted_mass(self, target_probs: Probs, draft_probs: Probs) -> Probs:
        """p(x) a(x); a is asked for what may be drafted alone."""
        most = int((draft_probs > 0).sum(-1).max()) if draft_probs.numel() else 0
        drafted, tokens = draft_probs.topk(most, -1)
        mass = drafted * self.chances(target_probs, draft_probs, tokens)
        return torch.zeros_like(draft_probs).scatter(-1, tokens, mass)

    def residual(self, target_probs: Probs, draft_probs: Probs) -> Probs:
        """Return the target; NaN where there was no distribution to draft from."""
        return target_probs + 0 * draft_probs


@dataclass(frozen=True)
class Typical(ByChance):
    """Medusa's typical acceptance: q(x) > min(epsilon, alpha exp(-H(q))), H the entropy of q.

    Source: Cai et al., 2024, arXiv 2401.10774. Epsilon 1 and a large alpha accept nothing: the
    target's law.
    """

    epsilon: float = 0.3
    alpha: float = 0.09

    def chances(self, target_probs: Probs, draft_probs: Probs, tokens: Some) -> Chances:  # noqa: ARG002
        """Return 1 or 0."""
        least = (self.alpha * (-entropy(target_probs)).exp()).clamp(max=self.epsilon)
        return (target_probs.gather(-1, tokens) > least[..., None]).to(target_probs)


@dataclass(frozen=True)
class Top(ByChance):
    """x is among the k likeliest of the target, and less likely than the best by delta at most.

    Source: LLaSA+ (Tian et al., 2025, arXiv 2508.06262) with k = 50; with delta the relaxed
    acceptance of TensorRT-LLM. Ties with the k-th pass; what the target cannot say does not.
    """

    k: int = 50
    delta: float = 1.0

    def chances(self, target_probs: Probs, draft_probs: Probs, tokens: Some) -> Chances:  # noqa: ARG002
        """Return 1 or 0."""
        best = target_probs.topk(min(self.k, target_probs.shape[-1]), -1).values
        least = torch.maximum(best[..., -1:], best[..., :1] - self.delta)
        found = target_probs.gather(-1, tokens)
        return ((found >= least) & (found > 0)).to(target_probs)


@dataclass(frozen=True)
class Divergence(ByChance):
    """FSD: whatever was drafted passes where JS(q, p) is at most `most` (in nats, up to ln 2).

    Source: Holsman et al., 2025, arXiv 2502.20704. 0 accepts only a draft with the target's law.
    """

    most: float = 0.2

    def chances(self, target_probs: Probs, draft_probs: Probs, tokens: Some) -> Chances:
        """Return 1 or 0, the same for all tokens of a row."""
        middle = (target_probs + draft_probs) / 2
        found = entropy(middle) - (entropy(target_probs) + entropy(draft_probs)) / 2
        return (found <= self.most)[..., None].expand(tokens.shape).to(target_probs)


@dataclass(frozen=True, eq=False)
class Neighbours(ByChance):
    """LANTERN: a token may borrow the probability of its nearest neighbours in the codebook.

    Of x's neighbours, nearest first, A(x) are the longest run with q(A) <= delta, or, with `ratio`
    (LANTERN++), q(A) + q(x) <= ratio q(x). The target that x is judged by has moved the mass of
    A(x) to x; by it x passes with q / p, and a token after its rejection comes from max(q - p, 0).
    Sources: Jang et al., 2024, arXiv 2410.03355; Park et al., 2025, arXiv 2502.06352. Delta 0 and
    ratio 1 are the exact rule.

    nearest: int64 [vocab, k], of each token its neighbours' ids; its own id stands for none.
    """

    nearest: Int64[Tensor, "vocab k"]
    delta: float = 0.1
    ratio: float | None = None

    @classmethod
    def build(cls, config: Any, artefacts: Artefacts) -> Self:
        """Build the rule of a `NeighboursRule` of settings."""
        return cls(artefacts.nearest(config.source, config.k), config.delta, config.ratio)

    def chances(self, target_probs: Probs, draft_probs: Probs, tokens: Some) -> Chances:
        """min(1, (q(x) + q(A)) / p(x))."""
        borrowed = self._borrowed(target_probs, tokens)[1]
        q, p = (law.gather(-1, tokens) for law in (target_probs, draft_probs))
        return ((q + borrowed) / p.clamp(min=torch.finfo(p.dtype).tiny)).clamp(max=1)

    def residual(self, target_probs: Probs, draft_probs: Probs) -> Probs:
        """max(q - p, 0), of which a rejected token's neighbours have none."""
        return TokenRule.residual(self, target_probs, draft_probs)

    def residual_after(self, target_probs: Probs, draft_probs: Probs, rejected: Ids) -> Probs:
        """Leave out A(x), and x, which is rejected only where p exceeds q."""
        lent, _ = self._borrowed(target_probs, rejected[..., None])
        near = self.nearest[rejected]
        anything = draft_probs.any(-1, keepdim=True)  # else nothing was drafted
        left = torch.where(lent[..., 0, :] & anything, 0.0, 1.0).to(target_probs)
        kept = torch.ones_like(target_probs).scatter_reduce(-1, near, left, "prod")
        return self.residual(target_probs, draft_probs) * kept

    def output_law(self, target_probs: Probs, draft_probs: Probs) -> Probs:
        """The sum over rejected x of their residuals, each norm(max(q - p, 0) outside A(x))."""
        shape, vocab = target_probs.shape, target_probs.shape[-1]
        rows = [law.reshape(-1, vocab) for law in (target_probs, draft_probs)]
        laws = [self._law(*row) for row in zip(*rows, strict=True)]
        return torch.stack(laws).view(shape)

    def _law(self, q: Float[Tensor, " vocab"], p: Float[Tensor, " vocab"]) -> Probs:
        """Return the output law of one row."""
        law = q * (1 - p.sum()).clamp(min=0)  # of a position where nothing was drafted
        possible = (p > 0).nonzero()[:, 0]
        for begin in range(0, len(possible), SOME):
            tokens = possible[begin : begin + SOME]
            drafted = p[tokens]
            passed = drafted * self.chances(q, p, tokens)
            rows = (len(tokens), len(q))
            mass = self.residual_after(q.expand(rows), p.expand(rows), tokens)
            law.index_add_(0, tokens, passed)
            law += (drafted - passed) @ normalised(mass, q.expand(rows))[0]
        return law

    def _borrowed(self, q: Probs, tokens: Some) -> tuple[Tensor, Chances]:
        """Return which neighbours of some tokens lend, [*rows, n, k], and their mass."""
        near = self.nearest[tokens]
        others = near != tokens[..., None]
        mass = q.gather(-1, near.flatten(-2)).view(near.shape) * others
        running = mass.cumsum(-1)
        own = q.gather(-1, tokens)[..., None]
        most = self.delta if self.ratio is None else (self.ratio - 1) * own
        lent = (running <= most) & others
        return lent, (mass * lent).sum(-1)


@dataclass(frozen=True, eq=False)
class Dynamic(ByChance):
    """GSD: groups made at each position, of tokens alike in probability and in sound.

    The group of x are the `reach` tokens on either side of x in the order of q whose q is within
    `gap` of q(x) and whose vector is nearer than `distance` (squared, of unit vectors; the authors
    take the target's embeddings as they are). x passes with Q / P, the sums over its group; a token
    after its rejection comes from max(q - p, 0). Source: So et al., 2025, arXiv 2508.07747, whose
    code has window 7 and limits 0.15 and 0.5. Reach 0 is the exact rule.

    vectors: [vocab, size], NaN of a token that has no neighbours.
    """

    vectors: Float[Tensor, "vocab size"]
    reach: int = 7
    gap: float = 0.15
    distance: float = 0.5

    @classmethod
    def build(cls, config: Any, artefacts: Artefacts) -> Self:
        """Build the rule of a `DynamicRule` of settings."""
        vectors = artefacts.code_vectors(config.source)
        return cls(vectors, config.reach, config.gap, config.distance)

    def chances(self, target_probs: Probs, draft_probs: Probs, tokens: Some) -> Chances:
        """min(1, Q / P)."""
        order = target_probs.sort(stable=True, dim=-1, descending=True).indices
        place = order.argsort(-1).gather(-1, tokens)[..., None]
        around = place + torch.arange(-self.reach, self.reach + 1, device=tokens.device)
        vocab = target_probs.shape[-1]
        member = order.gather(-1, around.clamp(0, vocab - 1).flatten(-2)).view(around.shape)
        q, p = (
            law.gather(-1, member.flatten(-2)).view(member.shape)
            for law in (target_probs, draft_probs)
        )
        alike = (q - target_probs.gather(-1, tokens)[..., None]).abs() < self.gap
        apart = (self.vectors[member] - self.vectors[tokens][..., None, :]).square().sum(-1)
        inside = (around >= 0) & (around < vocab) & alike & (apart < self.distance)
        inside |= around == place
        target, draft = ((law * inside).sum(-1) for law in (q, p))
        return (target / draft.clamp(min=torch.finfo(draft.dtype).tiny)).clamp(max=1)

    def residual(self, target_probs: Probs, draft_probs: Probs) -> Probs:
        """max(q - p, 0)."""
        return TokenRule.residual(self, target_probs, draft_probs)
