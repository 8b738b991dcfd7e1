"""Compute a draft's losses, right tokens and expected acceptance at a batch's speech positions."""

import logging
from collections.abc import Callable, Mapping
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from speculative_tts.training.data.pairs import IGNORED, SequenceBatch
from speculative_tts.training.loop import Values
from speculative_tts.training.losses import mix, needs_target

CHUNK = 256  # positions whose distributions are in memory at once
FAMILIAR = 0.5  # nats by which a codec's own codes are at least likelier in order than shuffled

logger = logging.getLogger(__name__)

Sampler = Callable[[Float[Tensor, "n vocab"]], Float[Tensor, "n vocab"]]
"""Map from logits to the distribution that tokens are drawn from."""


def speech_logits(
    model: PreTrainedModel, inputs: Int[Tensor, "batch time"], at: Bool[Tensor, "batch time"]
) -> Float[Tensor, "n vocab"]:
    """Return next-token logits at positions `at`."""
    return _head(model)(_hidden(model, inputs)[at])


def _hidden(model: PreTrainedModel, inputs: Int[Tensor, "batch time"]) -> Tensor:
    """Return final hidden states [batch, time, width]; right padding needs no mask."""
    states: Tensor = model.base_model(input_ids=inputs, use_cache=False).last_hidden_state
    return states


def _head(model: PreTrainedModel) -> Callable[[Tensor], Tensor]:
    head: Callable[[Tensor], Tensor] = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    return head


class Objective(nn.Module):
    """Sum losses over the speech positions of a batch; data-parallel training wraps this module.

    `load_target` returns the frozen target, which is no submodule: its parameters are not trained
    or synchronised. It is called once, when a loss or a figure first needs the target.
    """

    def __init__(
        self,
        draft: PreTrainedModel,
        weights: Mapping[str, float],
        load_target: Callable[[], PreTrainedModel] | None = None,
        temperature: float = 1.0,
    ) -> None:
        super().__init__()
        self.draft = draft
        self.weights = dict(weights)
        self.temperature = temperature
        self._load_target = load_target

    @cached_property  # written past nn.Module, which would make it a submodule
    def target(self) -> PreTrainedModel:
        """The frozen target."""
        assert self._load_target is not None, "these losses and figures need the target"
        return self._load_target()

    def forward(self, batch: SequenceBatch) -> tuple[Tensor, Values]:
        """Return the mixed loss (nats), and how many of the likeliest tokens are right."""
        at = batch.targets != IGNORED
        answers = batch.targets[at]
        logits = speech_logits(self.draft, batch.inputs, at)
        target_logits = None
        if needs_target(self.weights):
            target_logits = self._target_logits(batch, at, logits)
        losses = mix(self.weights, logits, answers, target_logits, self.temperature)
        return losses.sum(), {"accuracy": (logits.argmax(-1) == answers).sum()}

    @torch.no_grad()
    def _target_logits(
        self, batch: SequenceBatch, at: Bool[Tensor, "batch time"], draft: Tensor
    ) -> Tensor:
        """Return the target's logits at positions `at`: stored ones, else computed by a pass."""
        if batch.laws is None:
            return speech_logits(self.target, batch.inputs, at)
        logits = batch.laws.at(at).logits(draft)
        missing = at & batch.laws.rest.isnan()
        if (rows := missing.any(1)).any():
            computed = speech_logits(self.target, batch.inputs[rows], missing[rows])
            logits[missing[at]] = computed.float()
        return logits


@torch.no_grad()
def expected_acceptance(
    target: PreTrainedModel, draft: PreTrainedModel, batch: SequenceBatch, sampler: Sampler
) -> tuple[float, int]:
    """Return alpha = sum_x min(p(x), q(x)) summed over speech positions, and their number.

    Contexts are the recorded ones, so this is the acceptance rate of the first drafted token of a
    round. `CHUNK` positions are computed at a time: with a vocabulary of 193,800 they take 0.2 GB
    in float32.
    """
    at = batch.targets != IGNORED
    states = [torch.split(_hidden(model, batch.inputs)[at], CHUNK) for model in (target, draft)]
    heads, total = [_head(model) for model in (target, draft)], 0.0
    for parts in zip(*states, strict=True):
        q, p = (sampler(head(part).float()) for head, part in zip(heads, parts, strict=True))
        total += float(torch.minimum(p, q).sum(dtype=torch.float64))
    return total, int(at.sum())


@torch.no_grad()
def warn_of_other_codes(logits: Float[Tensor, "n vocab"], codes: Int[Tensor, " n"]) -> None:
    """Log a warning when codes are no likelier to the target than the same codes shuffled.

    `logits` are the target's for each code, given the codes before it. To it, another codec's
    codes look like renumbered ones. Measured on 20 recordings with the tiny target: its own codes
    cost 2.0 nats each (11.8 shuffled), renumbered ones 11.7 (11.6), another codec's 11.4 (11.5).
    """
    log_probs = logits.float().log_softmax(-1)
    in_order = -float(log_probs.gather(1, codes[:, None]).mean())
    shuffled = -float(log_probs[:, codes].mean())
    if in_order > shuffled - FAMILIAR:
        logger.warning(
            "the target finds these codes no likelier than in random order (%.1f and %.1f nats "
            "each): if it is trained, they are another codec's; give codes=<folder> of its own",
            in_order,
            shuffled,
        )
