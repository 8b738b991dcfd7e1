"""CosyVoice's repetition-aware sampling as an explicit next-token distribution.

The official sampler draws y from the nucleus; if y occurs often enough among the last tokens, it
draws again from the whole vocabulary. With p the softmax (temperature, barred ids removed), q = p
restricted to the nucleus N and renormalised, and R the ids that occur at least window * tau times
among the last `window` tokens, the token's distribution is

    P(x) = q(x) [x not in R] + sum over y in N and R of q(y) p(x) [x != y] / (1 - p(y)).

It depends on logits and the last tokens only, so speculation is exact under it as soon as the
distribution of every drafted position is computed with the drafts before it as history. Older
versions differ in two places, see `Repetition`. Source: the sampler of the CosyVoice repository at
ace7c47 (`ras_sampling`, after VALL-E 2, Chen et al., 2024), and before f2ddcbe, 56d9876.
"""

from dataclasses import dataclass
from functools import cache, reduce

import torch
from jaxtyping import Bool, Int64
from torch import Tensor
from torch.nn import functional

from speculative_tts.decoding.gpu.launch import runs
from speculative_tts.decoding.sampling.sampler import (
    History,
    Laws,
    Places,
    Sampler,
    StopRule,
    likeliest,
)
from speculative_tts.models.host import readable
from speculative_tts.native.sample import MOST, Sampling
from speculative_tts.schema.decode import Repetition

ID_BITS = 20
ID_MASK = (1 << ID_BITS) - 1


@dataclass(frozen=True)
class RepetitionAware(Sampler):
    """A token's distribution under repetition-aware sampling; temperature 0 is the argmax alone.

    `barred` are the ids that are impossible before the minimum length (None: all stop ids);
    CosyVoice bars its end of speech only, so that its other stop ids may end an utterance early.
    """

    window: int = 10
    tau: float = 0.1
    variant: Repetition = Repetition.current
    barred: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window < 1:
            raise ValueError(
                f"ras_window {self.window} is below 1; use 0 in the configuration to switch "
                "repetition awareness off"
            )
        if not self.tau > 0:
            raise ValueError(
                f"ras_tau {self.tau} is not above 0; use 0.1, one occurrence in a window of 10"
            )

    def law(self, logits: Laws, history: History, positions: Places, stop: StopRule) -> Laws:
        """Shapes as in `Sampler`; the token at position p looks at history[:, p - window : p]."""
        logits = self.prepared(logits, history, positions, stop)
        early = self._early(logits, positions, stop)
        if self.temperature == 0:
            return likeliest(logits.masked_fill(early, float("-inf")))
        if self.variant is Repetition.current:
            return self._law(logits.masked_fill(early, float("-inf")), history, positions)
        return _conditioned(self._law(logits, history, positions), early)

    def _early(
        self, logits: Laws, positions: Places, stop: StopRule
    ) -> Bool[Tensor, "batch new vocab"]:
        """Return the ids that must not be drawn at a position."""
        early = (positions < stop.minimum[:, None])[..., None]
        return (early & self.barred_of(stop)).expand_as(logits)

    def barred_of(self, stop: StopRule) -> Bool[Tensor, " vocab"]:
        """See `Sampler`."""
        if self.barred is None or self.variant is Repetition.redraw_stops:
            return stop.is_stop
        kept = readable(stop.is_stop) or runs(stop.is_stop)  # a traced graph's are its own
        places = _kept_places if kept else _places
        return places(self.barred, len(stop.is_stop), stop.is_stop.device)

    def settings(self) -> Sampling:
        """See `Sampler`."""
        shape = (self.temperature, self.top_p, min(self.top_k, MOST), min(self.window, MOST))
        return Sampling(*shape, self.window * self.tau, self.variant is Repetition.current)

    def _law(self, logits: Laws, history: History, positions: Places) -> Laws:
        logits = logits / self.temperature
        probs = logits.softmax(-1)
        ids = _likeliest(probs, min(self.top_k, probs.shape[-1]) or probs.shape[-1])
        values = probs.gather(-1, ids)
        # The running sum before each token, added up in the official order.
        before = functional.pad(values.cumsum(-1)[..., :-1], (1, 0))
        nucleus = values * (before < self.top_p)
        nucleus = nucleus / nucleus.sum(-1, keepdim=True)
        repeated = nucleus * self._repeats(ids, history, positions)
        law = torch.zeros_like(probs).scatter_(-1, ids, nucleus - repeated)
        if self.variant is not Repetition.current:
            return law + probs * repeated.sum(-1, keepdim=True)
        # Drawn again without the likeliest token: a softmax of its own, as 1 - p(y) may round to 0.
        others = logits.scatter(-1, ids[..., :1], float("-inf")).softmax(-1)
        others = torch.where(others.isnan(), probs, others)  # nothing else is possible
        law = law + repeated[..., :1] * others
        weights = repeated[..., 1:] / (1 - values[..., 1:])
        again = probs * weights.sum(-1, keepdim=True)
        own = probs.gather(-1, ids[..., 1:]) * weights
        return law + again.scatter_add_(-1, ids[..., 1:], -own).clamp_(min=0)

    def _repeats(
        self, ids: Int64[Tensor, "batch new n"], history: History, positions: Places
    ) -> Bool[Tensor, "batch new n"]:
        """Return whether each id occurs too often before its position."""
        places = positions[..., None] + torch.arange(-self.window, 0, device=positions.device)
        recent = history.gather(1, places.clamp(min=0).flatten(1)).view(places.shape)
        same = (ids[..., :, None] == recent[..., None, :]) & (places >= 0)[..., None, :]
        return same.sum(-1) >= self.window * self.tau


def _places(ids: tuple[int, ...], vocab: int, device: torch.device) -> Bool[Tensor, " vocab"]:
    places = torch.arange(vocab, device=device)
    return reduce(torch.logical_or, [places == id_ for id_ in ids])


_kept_places = cache(_places)


def _likeliest(probs: Laws, size: int) -> Int64[Tensor, "batch new size"]:
    """The `size` likeliest ids in a stable order: of equal ones the lower id comes first.

    Float32 bits of numbers that are not negative are in the numbers' order, so that bits and id
    make one integer to compare: a stable sort of the vocabulary takes 15 times as long on a CPU.
    """
    vocab = probs.shape[-1]
    assert vocab <= ID_MASK, f"{vocab} ids do not fit beside a probability"
    behind = ID_MASK - torch.arange(vocab, device=probs.device)
    keys = (probs.float().view(torch.int32).long() << ID_BITS) | behind
    return ID_MASK - (keys.topk(size, -1).values & ID_MASK)


def _conditioned(law: Laws, early: Bool[Tensor, "batch new vocab"]) -> Laws:
    """The distribution of "draw again until the id is allowed"; NaN where no id is allowed."""
    allowed = law.masked_fill(early, 0.0)
    return allowed / allowed.sum(-1, keepdim=True)
