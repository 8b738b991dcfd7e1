"""What a batch measures: losses at speech positions, right tokens, expected acceptance."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from speculative_tts.drafting.losses import mix, needs_target
from speculative_tts.training.batches import IGNORED

Sampler = Callable[[Float[Tensor, "n vocab"]], Float[Tensor, "n vocab"]]
"""Logits -> the distribution that tokens are drawn from."""


@dataclass(frozen=True)
class Batch:
    """Right-padded sequences; `targets` are `inputs` one further on, IGNORED outside speech."""

    inputs: Int[Tensor, "batch time"]
    targets: Int[Tensor, "batch time"]

    def to(self, device: torch.device) -> "Batch":
        """The batch on `device`."""
        return Batch(self.inputs.to(device), self.targets.to(device))


def speech_logits(
    model: PreTrainedModel, inputs: Int[Tensor, "batch time"], at: Bool[Tensor, "batch time"]
) -> Float[Tensor, "n vocab"]:
    """Next-token logits at positions `at`. Padding is on the right: a causal mask is enough."""
    backbone, head = model.base_model, model.get_output_embeddings()  # type: ignore[no-untyped-call]
    hidden = backbone(input_ids=inputs, use_cache=False).last_hidden_state
    return head(hidden[at])  # type: ignore[no-any-return]


class Objective(nn.Module):
    """Sums over the speech positions of a batch; the module that data-parallel training wraps.

    The target is not a submodule: its parameters are neither trained nor synchronised.
    """

    def __init__(
        self,
        draft: PreTrainedModel,
        weights: Mapping[str, float],
        target: PreTrainedModel | None = None,
        temperature: float = 1.0,
    ) -> None:
        super().__init__()
        self.draft = draft
        self.weights = dict(weights)
        self.temperature = temperature
        self._target = (target,)

    @property
    def target(self) -> PreTrainedModel | None:
        """The frozen target, when losses or dev figures need it."""
        return self._target[0]

    def forward(
        self, inputs: Int[Tensor, "batch time"], targets: Int[Tensor, "batch time"]
    ) -> dict[str, Tensor]:
        """Sums of the mixed loss (nats), of right most-likely tokens, and of speech positions."""
        at = targets != IGNORED
        answers = targets[at]
        logits = speech_logits(self.draft, inputs, at)
        target_logits = self._target_logits(inputs, at)
        losses = mix(self.weights, logits, answers, target_logits, self.temperature)
        correct = (logits.argmax(-1) == answers).sum()
        return {"loss": losses.sum(), "correct": correct, "count": at.sum()}

    def _target_logits(
        self, inputs: Int[Tensor, "batch time"], at: Bool[Tensor, "batch time"]
    ) -> Float[Tensor, "n vocab"] | None:
        (target,) = self._target
        if target is None or not needs_target(self.weights):
            return None
        with torch.no_grad():
            return speech_logits(target, inputs, at)


@torch.no_grad()
def expected_acceptance(
    target: PreTrainedModel, draft: PreTrainedModel, batch: Batch, sampler: Sampler
) -> tuple[float, int]:
    """Sum over speech positions of alpha = sum_x min(p(x), q(x)), and their number.

    Contexts are the recorded ones, so this is the acceptance rate of the first drafted token of a
    round.
    """
    at = batch.targets != IGNORED
    q = sampler(speech_logits(target, batch.inputs, at).float())
    p = sampler(speech_logits(draft, batch.inputs, at).float())
    return float(torch.minimum(p, q).sum(dtype=torch.float64)), int(at.sum())
