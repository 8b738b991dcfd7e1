"""Acceptance rules of speculative decoding as pure functions of probabilities and uniforms.

Convention: `target_probs` is the papers' q, `draft_probs` their p (the reverse of Leviathan et al.,
2023). A rule sees tensors only, never a model, a cache or a global random generator. Each rule
carries its closed-form one-step output law, so exactness is tested by algebra and a run can report
how far a relaxed rule moves the distribution.

Words: of the drafted tokens a prefix is *accepted*; then one more token is drawn, the *residual
token* after a rejection or the *bonus token* from the target after full acceptance.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, Self

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

Probs = Float[Tensor, "*rows vocab"]
Numbers = Float[Tensor, "*rows"]
Ids = Int64[Tensor, "*rows"]
Flags = Bool[Tensor, "*rows"]
Uniforms = Float[Tensor, "*rows 2"]


# Emitted probabilities below it count as it: a relaxed rule may give none to what the target says.
KL_FLOOR = 1e-10
# A rejection less probable than it is one by rounding.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Verdict:
    """Outcome of one verification."""

    accepted: Int64[Tensor, " batch"]  # length of the accepted prefix
    next_probs: Float[Tensor, "batch vocab"]  # distribution of the residual or bonus token
    fallback: Bool[Tensor, " batch"]  # the residual had no mass (rounding): the target stands in
    # of a block rule, before each position: the output law is the one of draft_probs / weights
    weights: Float[Tensor, "batch lookahead"] | None = None


@dataclass(frozen=True)
class NativeForm:
    """A rule as plain data that compiled verification understands (`native.verify.compiled`)."""

    beta: float = 0.0  # a token passes iff (u - beta) p < q
    groups: Mapping[str, Tensor] | None = None  # memberships; None: every token is its own group
    most_groups: int = 1  # of one token: read once, when the rule is made
    block: bool = False  # all drafted tokens are judged together


class Artefacts(Protocol):
    """Tensors that a rule may ask for when it is built from settings."""

    @property
    def memberships(self) -> Mapping[str, Tensor]:
        """Arguments of `Group`: the groups that the settings name."""

    def nearest(self, source: Any, number: int) -> Tensor:
        """Return each token's nearest neighbours, [vocab, number]; its own id stands for none."""

    def code_vectors(self, source: Any) -> Tensor:
        """Return a vector of length 1 per token, [vocab, size]; NaN where a token is no code."""

    def readable(self, x: Tensor) -> bool:
        """Return whether the host may read numbers of this tensor without waiting."""


class AcceptanceRule:
    """Base of all rules. Probabilities are float tensors with the vocabulary last.

    A native form belongs to one class and is not inherited: a subclass may verify differently.
    """

    # A block rule looks at all drafted tokens before it accepts any. A draft that it throws away
    # decided where the round ends, so uniforms are drawn anew each round.
    judges_blocks: ClassVar[bool] = False
    # The rule's paper draws the token after a rejection by trials (`expected_trials`).
    draws_by_trials: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "native" not in vars(cls):
            cls.native = AcceptanceRule.native  # type: ignore[method-assign]

    def accept(
        self, target_probs: Probs, draft_probs: Probs, drafted: Ids, uniforms: Uniforms
    ) -> Flags:
        """Return whether each drafted token is accepted when judged alone.

        Uniforms are in [0, 1), the second for rules with an auxiliary draw.
        """
        raise NotImplementedError

    def residual(self, target_probs: Probs, draft_probs: Probs) -> Probs:
        """Return the mass, not normalised, of the token drawn after a rejection.

        A draft row of zeros stands for "nothing was drafted here" and must give the target itself
        (the bonus token).
        """
        raise NotImplementedError

    def residual_after(self, target_probs: Probs, draft_probs: Probs, rejected: Ids) -> Probs:  # noqa: ARG002
        """Return the `residual` once this token of a row was rejected; most rules ignore which."""
        return self.residual(target_probs, draft_probs)

    def output_law(self, target_probs: Probs, draft_probs: Probs) -> Probs:
        """Return the distribution of the token that one position emits."""
        raise NotImplementedError

    def acceptance_probability(self, target_probs: Probs, draft_probs: Probs) -> Numbers:
        """Return the probability that a token drawn from the draft is accepted."""
        raise NotImplementedError

    def expected_trials(self, target_probs: Probs, draft_probs: Probs) -> Numbers:
        """Return the mean number of trials after a rejection, of a rule that draws by trials."""
        raise NotImplementedError

    def distortion(
        self, target_probs: Probs, draft_probs: Probs, weights: Numbers
    ) -> dict[str, Numbers]:
        """Return how far from the target a position emits: total variation, KL(target || emitted).

        weights: see `Verdict`. Of a rule with trials, which are 1 / P(rejection), also P(rejection)
        and P(rejection) x trials, hence 1 where a rejection is possible: the ratio of their sums is
        the mean number of trials a rejection.
        """
        emitted = self.output_law(target_probs, draft_probs / weights[..., None])
        ratio = target_probs / emitted.clamp(min=KL_FLOOR)
        found = {
            "tv": (emitted - target_probs).abs().sum(-1) / 2,
            "kl": torch.special.xlogy(target_probs, ratio).sum(-1),
        }
        if self.draws_by_trials:
            rejection = 1 / self.expected_trials(target_probs, draft_probs)
            found["expected_rejections"] = rejection
            found["expected_trials"] = (rejection > ROUNDING).to(rejection)
        return found

    def native(self) -> NativeForm | None:
        """Return the rule for compiled verification; None where only Python verifies it."""
        return None

    def judge(
        self,
        target_probs: Float[Tensor, "batch fed vocab"],
        draft_probs: Float[Tensor, "batch lookahead vocab"],
        drafted: Int64[Tensor, "batch lookahead"],
        lengths: Int64[Tensor, " batch"],
        uniforms: Float[Tensor, "batch lookahead 2"],
    ) -> Verdict:
        """Accept a prefix of the drafted tokens; return it and the next token's distribution.

        Only the first `lengths` drafted tokens of a row count; fed is lookahead + 1.
        """
        lookahead = drafted.shape[1]
        used = torch.arange(lookahead, device=drafted.device) < lengths[:, None]
        passed = self.accept(target_probs[:, :lookahead], draft_probs, drafted, uniforms) & used
        accepted = passed.long().cumprod(-1).sum(-1)
        row = torch.arange(len(accepted), device=accepted.device)
        target_row = target_probs[row, accepted]
        if not lookahead:
            mass = self.residual(target_row, torch.zeros_like(target_row))
            return Verdict(accepted, *normalised(mass, target_row))
        last = accepted.clamp(max=lookahead - 1)
        draft_row = draft_probs[row, last] * (accepted < lengths)[:, None]
        mass = self.residual_after(target_row, draft_row, drafted[row, last])
        return Verdict(accepted, *normalised(mass, target_row))


class TokenRule(AcceptanceRule):
    """Base of rules that look at one token: their laws follow from the accepted mass and residual.

    Subclasses are dataclasses.
    """

    @classmethod
    def build(cls, config: Any, artefacts: Artefacts) -> Self:  # noqa: ARG003 - for subclasses
        """Build the rule from its settings: each field from the key of the same name."""
        return cls(**{field.name: getattr(config, field.name) for field in fields(cls)})  # type: ignore[arg-type]

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

    def native(self) -> NativeForm:
        """See `AcceptanceRule`."""
        return NativeForm(self.beta)

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
        """Return p a with a = min(1, min(1, q / p) + beta), as min(p, min(p, q) + beta p).

        Sums to sum min(p, q) = 1 - TV(p, q) for beta 0.
        """
        capped = torch.minimum(draft_probs, target_probs) + self.beta * draft_probs
        return torch.minimum(draft_probs, capped)


def entropy(law: Probs) -> Numbers:
    """Return the entropy in nats."""
    found: Tensor = -torch.special.xlogy(law, law).sum(-1)
    return found


def normalised(mass: Probs, instead: Probs) -> tuple[Probs, Flags]:
    """Return a distribution from its mass, `instead` where there is none, and where that was."""
    total = mass.sum(-1, keepdim=True)
    empty = total <= 0
    return torch.where(empty, instead, mass / total), empty[..., 0]
