"""Ways to get speculative decoding wrong that still produce plausible output: what the exactness
tests must catch.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from stubs import Markov
from torch import Tensor

from speculative_tts.decoding.drafters.lm import LMDrafting
from speculative_tts.decoding.loops import speculation
from speculative_tts.decoding.rules.acceptance import AcceptanceRule, Verdict
from speculative_tts.decoding.sampling.randomness import ACCEPT, DRAFT


@dataclass(frozen=True)
class Wrapped(AcceptanceRule):
    """A rule around a rule."""

    rule: AcceptanceRule

    def accept(
        self, target_probs: Tensor, draft_probs: Tensor, drafted: Tensor, uniforms: Tensor
    ) -> Tensor:
        return self.rule.accept(target_probs, draft_probs, drafted, uniforms)

    def residual(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:
        return self.rule.residual(target_probs, draft_probs)

    def output_law(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:
        return self.rule.output_law(target_probs, draft_probs)

    def acceptance_probability(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:
        return self.rule.acceptance_probability(target_probs, draft_probs)


class Difference(Wrapped):
    """After a rejection the token comes from max(q - p, 0), whichever token was rejected."""

    def residual(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:
        return (target_probs - draft_probs).clamp(min=0)


class AlwaysAccept(Wrapped):
    def accept(
        self, target_probs: Tensor, draft_probs: Tensor, drafted: Tensor, uniforms: Tensor
    ) -> Tensor:
        return super().accept(target_probs, draft_probs, drafted, uniforms) | True


class NoResidual(Wrapped):
    """After a rejection the token comes from the target itself."""

    def residual(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:
        return target_probs


class NeverRolledBack(Markov):
    """A target whose cache keeps rejected drafts: a lower start does not take it back."""

    def cache(self, batch: int, capacity: int) -> Tensor:
        self._ends = torch.zeros(batch, dtype=torch.int64)
        return super().cache(batch, 4 * capacity)

    def prefill(self, prompts: list[Tensor], cache: Tensor) -> Tensor:
        self._ends = torch.tensor([len(p) for p in prompts])
        return super().prefill(prompts, cache)

    def extend(self, ids: Tensor, cache: Tensor, start: Tensor, keep: int | None = None) -> Tensor:
        start = torch.maximum(start, self._ends)
        self._ends = start + ids.shape[1]
        return super().extend(ids, cache, start, keep)


def bonus_from_wrong_row(patch: pytest.MonkeyPatch) -> None:
    """The token after full acceptance comes from the law of the position before."""

    def verify(rule: AcceptanceRule, target_probs: Tensor, *rest: Tensor) -> Verdict:
        right = rule.judge(target_probs, *rest)
        full = right.accepted == rest[2]
        at = (right.accepted - 1).clamp(min=0)
        before = target_probs[torch.arange(len(at)), at]
        return Verdict(
            right.accepted, torch.where(full[:, None], before, right.next_probs), right.fallback
        )

    patch.setattr(speculation, "verify", verify)


def draft_temperature_ignored(patch: pytest.MonkeyPatch) -> None:
    """The rule sees the draft's law at temperature 1 / 2 of the one the tokens were drawn at."""
    real = LMDrafting.propose

    def draft(*args: object, **options: object) -> tuple[Tensor, Tensor]:
        drafted, laws = real(*args, **options)  # type: ignore[arg-type]
        sharp = laws**2
        return drafted, sharp / sharp.sum(-1, keepdim=True)

    patch.setattr(LMDrafting, "propose", draft)


@dataclass(frozen=True)
class Fault:
    """One way to be wrong: in the rule, in the target, or in the loop."""

    rule: Callable[[AcceptanceRule], AcceptanceRule] = lambda rule: rule
    target: Callable[[Tensor], Markov] = Markov
    loop: Callable[[pytest.MonkeyPatch], None] = lambda patch: None


FAULTS = {
    "always accept": Fault(rule=AlwaysAccept),
    "no residual": Fault(rule=NoResidual),
    "stale cache after rollback": Fault(target=NeverRolledBack),
    "bonus from the wrong row": Fault(loop=bonus_from_wrong_row),
    "draft temperature ignored": Fault(loop=draft_temperature_ignored),
    "acceptance reuses the draft's uniform": Fault(
        loop=lambda p: p.setattr(speculation, "ACCEPT", DRAFT)
    ),
    "residual reuses the acceptance's uniform": Fault(
        loop=lambda p: p.setattr(speculation, "NEXT", ACCEPT)
    ),
}
