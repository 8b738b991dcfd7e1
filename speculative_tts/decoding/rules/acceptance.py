"""Acceptance rules of speculative decoding as pure functions of probabilities and uniforms.

Convention: `target_probs` is the papers' q, `draft_probs` their p (the reverse of Leviathan et al.,
2023). A rule sees tensors only, never a model, a cache or a global random generator. Each rule
carries its closed-form one-step output law, so exactness is tested by algebra and a run can report
how far a relaxed rule moves the distribution.

Words: of the drafted tokens a prefix is *accepted*; then one more token is drawn, the *residual
token* after a rejection or the *bonus token* from the target after full acceptance.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

Probs = Float[Tensor, "*rows vocab"]
Numbers = Float[Tensor, "*rows"]
Ids = Int64[Tensor, "*rows"]
Flags = Bool[Tensor, "*rows"]
Uniforms = Float[Tensor, "*rows 2"]


class AcceptanceRule(Protocol):
    """What the loop needs of a rule. All probabilities are float, vocabulary last."""

    def accept(
        self, target_probs: Probs, draft_probs: Probs, drafted: Ids, uniforms: Uniforms
    ) -> Flags:
        """Is each drafted token accepted, seen alone?

        Uniforms are in [0, 1), the second for rules with an auxiliary draw.
        """
        ...

    def residual(self, target_probs: Probs, draft_probs: Probs) -> Probs:
        """Mass, not normalised, of the token drawn after a rejection.

        A draft row of zeros stands for "nothing was drafted here" and must give the target itself
        (the bonus token).
        """
        ...

    def output_law(self, target_probs: Probs, draft_probs: Probs) -> Probs:
        """Distribution of the token that one position emits."""
        ...

    def acceptance_probability(self, target_probs: Probs, draft_probs: Probs) -> Numbers:
        """Probability that a token drawn from the draft is accepted."""
        ...


@runtime_checkable
class BlockRule(Protocol):
    """A rule that looks at all drafted tokens before it accepts any (`decoding.rules.block`).

    A draft that it throws away decided where the round ends, so uniforms are drawn anew each round.
    """

    def judge(
        self,
        target_probs: Float[Tensor, "batch fed vocab"],
        draft_probs: Float[Tensor, "batch lookahead vocab"],
        drafted: Int64[Tensor, "batch lookahead"],
        lengths: Int64[Tensor, " batch"],
        uniforms: Float[Tensor, "batch lookahead 2"],
    ) -> "Verdict":
        """As `verify` takes and gives it."""
        ...


@runtime_checkable
class RejectedRule(Protocol):
    """A rule whose residual depends on which token was rejected, too."""

    def residual_of(self, target_probs: Probs, draft_probs: Probs, rejected: Ids) -> Probs:
        """As `residual`, after this token of a row."""
        ...


class TokenRule:
    """Laws of a rule that looks at one token: from the mass that passes, and the residual."""

    def accepted_mass(self, target_probs: Probs, draft_probs: Probs) -> Probs:
        """p(x) a(x): the probability that x is drafted and passes."""
        raise NotImplementedError

    def residual(self, target_probs: Probs, draft_probs: Probs) -> Probs:
        """max(q - p, 0)."""
        return (target_probs - draft_probs).clamp_(min=0)

    def output_law(self, target_probs: Probs, draft_probs: Probs) -> Probs:
        """P a + (1 - sum p a) norm(residual)."""
        accepted = self.accepted_mass(target_probs, draft_probs)
        residual, _ = normalised(self.residual(target_probs, draft_probs), target_probs)
        return accepted + (1 - accepted.sum(-1, keepdim=True)).clamp(min=0) * residual

    def acceptance_probability(self, target_probs: Probs, draft_probs: Probs) -> Numbers:
        """sum_x p(x) a(x)."""
        return self.accepted_mass(target_probs, draft_probs).sum(-1)


@dataclass(frozen=True)
class Tolerance(TokenRule):
    """SSD's tolerance rule: accept x iff u < min(1, q(x) / p(x)) + beta.

    Source: Lin et al., 2025, algorithm 1. beta = 0 is exact speculative sampling (Leviathan et al.,
    2023): the emitted law is the target's.
    """

    beta: float = 0.0

    def __post_init__(self) -> None:
        if not self.beta >= 0:
            raise ValueError(
                f"beta {self.beta} is not 0 or more; 0 is exact speculation, more a tolerance"
            )

    def accept(
        self, target_probs: Probs, draft_probs: Probs, drafted: Ids, uniforms: Uniforms
    ) -> Flags:
        """(u - beta) p(x) < q(x): no division, and u < 1 makes the cap at 1 needless.

        With beta 0, q(x) = 0 never passes.
        """
        q = target_probs.gather(-1, drafted[..., None])[..., 0]
        p = draft_probs.gather(-1, drafted[..., None])[..., 0]
        return (uniforms[..., 0] - self.beta) * p < q

    def accepted_mass(self, target_probs: Probs, draft_probs: Probs) -> Probs:
        """With a = min(1, min(1, q / p) + beta), written min(p, min(p, q) + beta p): no division.

        Sums to sum min(p, q) = 1 - TV(p, q) for beta 0.
        """
        capped = torch.minimum(draft_probs, target_probs) + self.beta * draft_probs
        return torch.minimum(draft_probs, capped)


@dataclass(frozen=True)
class Verdict:
    """Outcome of one verification."""

    accepted: Int64[Tensor, " batch"]  # length of the accepted prefix
    next_probs: Float[Tensor, "batch vocab"]  # normalised law of the residual or bonus token
    fallback: Bool[Tensor, " batch"]  # the residual had no mass (rounding): the target stands in
    # of a block rule, before each position: the output law is the one of draft_probs / weights
    weights: Float[Tensor, "batch lookahead"] | None = None


def verify(
    rule: AcceptanceRule,
    target_probs: Float[Tensor, "batch fed vocab"],
    draft_probs: Float[Tensor, "batch lookahead vocab"],
    drafted: Int64[Tensor, "batch lookahead"],
    lengths: Int64[Tensor, " batch"],
    uniforms: Float[Tensor, "batch lookahead 2"],
) -> Verdict:
    """Accept a prefix of the drafted tokens and prepare the law of the token after it.

    Of a row's drafted tokens the first `lengths` count; fed is lookahead + 1.
    """
    if isinstance(rule, BlockRule):
        return rule.judge(target_probs, draft_probs, drafted, lengths, uniforms)
    lookahead = drafted.shape[1]
    used = torch.arange(lookahead, device=drafted.device) < lengths[:, None]
    passed = rule.accept(target_probs[:, :lookahead], draft_probs, drafted, uniforms) & used
    accepted = passed.long().cumprod(-1).sum(-1)
    row = torch.arange(len(accepted), device=accepted.device)
    target_row = target_probs[row, accepted]
    rejected = accepted < lengths
    draft_row = (
        draft_probs[row, accepted.clamp(max=lookahead - 1)]
        if lookahead
        else torch.zeros_like(target_row)
    )
    left = (target_row, draft_row * rejected[:, None])
    if isinstance(rule, RejectedRule) and lookahead:
        token = drafted[row, accepted.clamp(max=lookahead - 1)]
        mass = rule.residual_of(*left, token)
    else:
        mass = rule.residual(*left)
    return Verdict(accepted, *normalised(mass, target_row))


def entropy(law: Probs) -> Numbers:
    """In nats."""
    found: Tensor = -torch.special.xlogy(law, law).sum(-1)
    return found


def normalised(mass: Probs, instead: Probs) -> tuple[Probs, Flags]:
    """A law from its mass, and where it has none: `instead` stands in."""
    total = mass.sum(-1, keepdim=True)
    empty = total <= 0
    return torch.where(empty, instead, mass / total), empty[..., 0]
