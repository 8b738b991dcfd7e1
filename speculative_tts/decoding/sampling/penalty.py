"""Repetition penalty (CTRL, Keskar et al., 2019) as part of a sampler, as in transformers.

Logits of ids that occur in the prompt or before a position are divided by the penalty if positive
and multiplied by it if negative, before temperature, top-k and top-p. The distribution of a drafted
position sees the drafts before it, so speculation stays exact.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from speculative_tts.decoding.sampling.sampler import History, Laws, Places, Sampler, StopRule
from speculative_tts.native.sample import Sampling


@dataclass(frozen=True)
class RepetitionPenalty(Sampler):
    """A sampler that makes ids less likely which were there before; 1 changes nothing."""

    penalty: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.penalty > 0:
            raise ValueError(
                f"repetition_penalty {self.penalty} is not above 0; use 1 for none, 1.2 for some"
            )

    def settings(self) -> Sampling:
        """See `Sampler`."""
        settings = super().settings()
        settings.penalty = self.penalty
        return settings

    def prepared(self, logits: Laws, history: History, positions: Places, stop: StopRule) -> Laws:
        """See `Sampler`; a token at position p looks at the prompt and history[:, :p]."""
        if self.penalty != 1:
            before = seen(history, positions, logits.shape[-1]) | stop.prompted[:, None]
            fixed = torch.where(logits < 0, logits * self.penalty, logits / self.penalty)
            logits = torch.where(before, fixed, logits)
        return super().prepared(logits, history, positions, stop)


def seen(history: History, positions: Places, vocab_size: int) -> Bool[Tensor, "batch new vocab"]:
    """Return which ids are in history[:, :p] for each position p."""
    batch, new = positions.shape
    columns = torch.arange(history.shape[1], device=history.device)
    past = columns < positions[:, :, None]
    ids = torch.where(past, history[:, None], vocab_size)  # one id too many for what is not past
    found = torch.zeros(batch, new, vocab_size + 1, dtype=torch.bool, device=history.device)
    return found.scatter_(-1, ids, torch.ones_like(ids, dtype=torch.bool))[..., :-1]
