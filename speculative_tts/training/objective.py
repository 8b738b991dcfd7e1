"""What a batch says of a draft: losses at speech positions, right tokens, expected acceptance."""

import logging
from collections.abc import Callable, Mapping
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from speculative_tts.training.data.pairs import Batch
from speculative_tts.training.data.recordings import IGNORED
from speculative_tts.training.loop import Values
from speculative_tts.training.losses import Coarse, each, mix, needs_target

CHUNK = 256  # positions whose distributions are in memory at once
FAMILIAR = 0.5  # nats by which a codec's own codes are likelier in their places than anywhere

logger = logging.getLogger(__name__)

Sampler = Callable[[Float[Tensor, "n vocab"]], Float[Tensor, "n vocab"]]
"""Logits -> the distribution that tokens are drawn from."""


def speech_logits(
    model: PreTrainedModel, inputs: Int[Tensor, "batch time"], at: Bool[Tensor, "batch time"]
) -> Float[Tensor, "n vocab"]:
    """Next-token logits at positions `at`."""
    return _head(model)(_hidden(model, inputs)[at])


def _hidden(model: PreTrainedModel, inputs: Int[Tensor, "batch time"]) -> Tensor:
    """Final hidden states [batch, time, width]. Padding is on the right: causality is enough."""
    states: Tensor = model.base_model(input_ids=inputs, use_cache=False).last_hidden_state
    return states


def _head(model: PreTrainedModel) -> Callable[[Tensor], Tensor]:
    head: Callable[[Tensor], Tensor] = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    return head


class Objective(nn.Module):
    """Sums over the speech positions of a batch; the module that data-parallel training wraps.

    `load_target` gives the frozen target, which is no submodule: its parameters are neither trained
    nor synchronised. It is called once, when a loss or a figure first needs the target.
    """

    def __init__(
        self,
        draft: PreTrainedModel,
        weights: Mapping[str, float],
        load_target: Callable[[], PreTrainedModel] | None = None,
        temperature: float = 1.0,
        coarse: Coarse = each,
    ) -> None:
        super().__init__()
        self.draft, self.coarse = draft, coarse
        self.weights = dict(weights)
        self.temperature = temperature
        self._load_target = load_target

    @cached_property  # written past nn.Module, which would make it a submodule
    def target(self) -> PreTrainedModel:
        """The frozen target."""
        assert self._load_target is not None, "these losses and figures need the target"
        return self._load_target()

    def forward(self, batch: Batch) -> tuple[Tensor, Values]:
        """The mixed loss (nats), and how many of the likeliest tokens are right."""
        at = batch.targets != IGNORED
        answers = batch.targets[at]
        logits = speech_logits(self.draft, batch.inputs, at)
        target_logits = None
        if needs_target(self.weights):
            target_logits = self._target_logits(batch, at, logits)
        given = (logits, answers, target_logits, self.temperature, self.coarse)
        losses = mix(self.weights, *given)
        return losses.sum(), {"accuracy": (logits.argmax(-1) == answers).sum()}

    @torch.no_grad()
    def _target_logits(self, batch: Batch, at: Bool[Tensor, "batch time"], draft: Tensor) -> Tensor:
        """The target's at positions `at`: by laws that were kept, of other sequences by a pass."""
        if batch.laws is None:
            return speech_logits(self.target, batch.inputs, at)
        logits = batch.laws.at(at).logits(draft)
        lacking = at & batch.laws.rest.isnan()
        if (rows := lacking.any(1)).any():
            computed = speech_logits(self.target, batch.inputs[rows], lacking[rows])
            logits[lacking[at]] = computed.float()
        return logits


@torch.no_grad()
def expected_acceptance(
    target: PreTrainedModel, draft: PreTrainedModel, batch: Batch, sampler: Sampler
) -> tuple[float, int]:
    """Sum over speech positions of alpha = sum_x min(p(x), q(x)), and their number.

    Contexts are the recorded ones, so this is the acceptance rate of the first drafted token of a
    round. Distributions are made of `CHUNK` positions at a time: of a vocabulary of 193,800 that is
    0.2 GB in float32.
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
    """Say so when codes are no likelier to the target than the same codes in random order.

    logits: the target's, of each code given those before it.
    Another codec's codes are as good as renumbered. Measured on 20 recordings with the tiny target:
    its own codes cost 2.0 nats each (11.8 in random order), renumbered ones 11.7 (11.6), another
    codec's 11.4 (11.5).
    """
    laws = logits.float().log_softmax(-1)
    in_place = -float(laws.gather(1, codes[:, None]).mean())
    anywhere = -float(laws[:, codes].mean())
    if in_place > anywhere - FAMILIAR:
        logger.warning(
            "the target finds these codes no likelier than in random order (%.1f and %.1f nats "
            "each): if it is trained, they are another codec's; give codes=<folder> of its own",
            in_place,
            anywhere,
        )
