"""Verification of a whole block at once: lossless, and never fewer tokens than one after the other.

Sun et al., 2024, arXiv 2403.10444; for groups of tokens (PCG) it is this package's own. With the
papers' p = draft and q = target, r_i the ratio that the token rule compares with a uniform (q / p
of the token, or Q_c / P_c of its group), and T_i the mass of the residual:

    P_0 = 1,  P_i = min(P_{i-1} r_i, 1)
    T_i = sum max(P_i q - p, 0)  after i tokens (of groups: Q_c and P_c)
    h_i = T_i / (T_i + 1 - P_i), of the last drafted token P_i

Each i passes with probability h_i, and the longest i that passes is accepted, whatever came before;
then a token is drawn from max(P_i q - p, 0). The chance to accept i tokens or more is P_i, where
one after the other it is prod min(r, 1), which is not greater. docs/block-verification.md has the
proofs, and what holds for groups: each group follows Q_c given all tokens and groups before it.
"""

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from speculative_tts.decoding.rules.acceptance import (
    AcceptanceRule,
    Artefacts,
    Flags,
    Ids,
    NativeForm,
    Numbers,
    Probs,
    Tolerance,
    Uniforms,
    Verdict,
    normalised,
)
from speculative_tts.decoding.rules.group import Group

Steps = Float[Tensor, "batch lookahead"]
LEAST = 1e-30  # weights below it are never accepted, and would overflow as divisors


class BlockRule(AcceptanceRule):
    """Block verification, of tokens or by the groups of `rule`."""

    judges_blocks = True

    def __init__(self, rule: Group | None = None) -> None:
        self._groups = rule
        self.by: Tolerance | Group = Tolerance(0.0) if rule is None else rule

    def native(self) -> NativeForm:
        """See `AcceptanceRule`; within native rounds alone."""
        return replace(self.by.native(), block=True)

    def judge(
        self,
        target_probs: Float[Tensor, "batch fed vocab"],
        draft_probs: Float[Tensor, "batch lookahead vocab"],
        drafted: Int64[Tensor, "batch lookahead"],
        lengths: Int64[Tensor, " batch"],
        uniforms: Float[Tensor, "batch lookahead 2"],
    ) -> Verdict:
        """See `AcceptanceRule`."""
        weights, chances = self.chances(
            target_probs, draft_probs, drafted, lengths, uniforms[..., 1]
        )
        number = torch.arange(1, drafted.shape[1] + 1, device=drafted.device)
        passed = (uniforms[..., 0] < chances) & (number <= lengths[:, None])
        accepted = torch.cat([lengths[:, None] * 0, passed * number], 1).amax(1)
        row = torch.arange(len(accepted), device=accepted.device)
        law = target_probs[row, accepted]
        # after the last drafted token nothing was drafted: the residual is the target itself
        draft = torch.cat([draft_probs, torch.zeros_like(target_probs[:, :1])], 1)[row, accepted]
        draft = draft * (accepted < lengths)[:, None] / weights[row, accepted, None]
        return Verdict(
            accepted, *normalised(self.residual(law, draft), law), weights=weights[:, :-1]
        )

    def chances(
        self,
        target_probs: Float[Tensor, "batch fed vocab"],
        draft_probs: Float[Tensor, "batch lookahead vocab"],
        drafted: Int64[Tensor, "batch lookahead"],
        lengths: Int64[Tensor, " batch"],
        uniform: Steps,
    ) -> tuple[Float[Tensor, "batch fed"], Steps]:
        """P_0, P_1, .. and h_1, h_2, ..; `uniform` says the groups of the drafted tokens."""
        lookahead = drafted.shape[1]
        ratios = self.ratios(target_probs[:, :lookahead], draft_probs, drafted, uniform)
        steps = [torch.ones_like(target_probs[:, 0, 0])]
        for ratio in ratios.unbind(1):
            steps.append((steps[-1] * ratio).clamp(LEAST, 1.0))
        weights = torch.stack(steps, 1)
        inner = weights[:, 1:lookahead, None]  # a round's last token has no residual to weigh
        rest = self.residual(target_probs[:, 1:lookahead], draft_probs[:, 1:] / inner).sum(-1)
        left = rest * inner[..., 0]
        below = left + 1 - inner[..., 0]
        chances = weights[:, 1:].clone()
        chances[:, :-1] = torch.where(below > 0, left / below, 1.0)  # 0 / 0: the next one passes
        number = torch.arange(1, lookahead + 1, device=drafted.device)
        return weights, torch.where(number == lengths[:, None], weights[:, 1:], chances)

    def ratios(self, q: Probs, p: Probs, drafted: Ids, uniform: Steps) -> Steps:
        """Ratio q / p of each drafted token, or of the group that is drawn for it."""
        at = drafted
        if self._groups is not None and drafted.numel():
            at = self._groups.draw_group(drafted.reshape(-1), uniform.reshape(-1))
            at = at.view(drafted.shape)
            q, p = self._groups.coarse(q), self._groups.coarse(p)
        mine, other = (x.gather(-1, at[..., None])[..., 0] for x in (q, p))
        return mine / other.clamp(min=torch.finfo(other.dtype).tiny)

    def residual(self, target_probs: Probs, draft_probs: Probs) -> Probs:
        """Return the token rule's residual, of a draft that need not sum to 1."""
        return self.by.residual(target_probs, draft_probs)

    def output_law(self, target_probs: Probs, draft_probs: Probs) -> Probs:
        """Return the token rule's output law, of a draft divided by its weight (see `Verdict`)."""
        return self.by.output_law(target_probs, draft_probs)

    def acceptance_probability(self, target_probs: Probs, draft_probs: Probs) -> Numbers:
        """Return the token rule's probability for a token judged alone."""
        return self.by.acceptance_probability(target_probs, draft_probs)

    def accept(
        self, target_probs: Probs, draft_probs: Probs, drafted: Ids, uniforms: Uniforms
    ) -> Flags:
        """Judge tokens alone by the token rule, which a block of one equals."""
        return self.by.accept(target_probs, draft_probs, drafted, uniforms)


def exact(config: Any, artefacts: Artefacts) -> AcceptanceRule:  # noqa: ARG001 - needs none
    """Build the rule of an `ExactRule` of settings."""
    return BlockRule() if config.block else Tolerance(0.0)


def by_groups(config: Any, artefacts: Artefacts) -> AcceptanceRule:
    """Build the rule of a `GroupRule` of settings."""
    rule = Group(**artefacts.memberships, readable=artefacts.readable)
    return BlockRule(rule) if config.block else rule
