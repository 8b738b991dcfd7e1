"""Sampling transforms as distributions.

(logits, history, position) -> the probabilities a token is really drawn from. Order as in
transformers: minimum length, temperature, top-k, top-p on what top-k left. The same sampler serves
target and draft at every drafted position, so that speculation is exact under the sampler the
target is used with.
"""

import functools
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from speculative_tts.decoding.gpu import laws
from speculative_tts.decoding.gpu.launch import runs
from speculative_tts.models.host import readable
from speculative_tts.models.slots import Slots
from speculative_tts.native import sample

Laws = Float[Tensor, "batch new vocab"]  # or logits
History = Int64[Tensor, "batch capacity"]
Places = Int64[Tensor, "batch new"]


@dataclass(frozen=True)
class Sampler:
    """Temperature 0 is one-hot at the argmax; top_k 0 and top_p 1 switch themselves off.

    `end_when_likeliest`: where a stop id is the likeliest token it is certain. VALL-E's code ends
    when the sample *or* the argmax is the end, which is this law. `slots`: the ids that a position
    may hold, for codes that come in frames; None: all ids.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    end_when_likeliest: bool = field(default=False, kw_only=True)
    slots: Slots | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not self.temperature >= 0:
            raise ValueError(
                f"temperature {self.temperature} is below 0; use 0 for greedy or a positive value"
            )
        if self.top_k < 0:
            raise ValueError(f"top_k {self.top_k} is below 0; use 0 for no limit")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p {self.top_p} is outside (0, 1]; use 1 for no limit")

    def __call__(self, logits: Laws, history: History, positions: Places, stop: "StopRule") -> Laws:
        """Return the distributions of the tokens at `positions`.

        `history` has the ids so far, drafts included; the token at position p may depend on
        history[:, :p]. NaN where there is no distribution, because logits are NaN or infinite or
        nothing is possible.
        """
        given = (stop.minimum, stop.is_stop, self.barred_of(stop), stop.prompted)
        places = sample.Places(history, positions, *given)
        if sample.runs(logits):
            return sample.laws(settings_of(self), logits, places)
        if runs(logits):
            computed = laws.law(settings_of(self), logits, places)
            if computed is not None:
                return computed
        law = self.law(logits, history, positions, stop)
        if not self.end_when_likeliest:
            return law
        ready = self.prepared(logits, history, positions, stop)
        return ended(law, stop.mask(ready, positions), stop)

    def law(self, logits: Laws, history: History, positions: Places, stop: "StopRule") -> Laws:
        """Compute the distributions by torch but for `end_when_likeliest`: the reference."""
        logits = stop.mask(self.prepared(logits, history, positions, stop), positions)
        if self.temperature == 0:
            return likeliest(logits)
        if self.top_k == 0 and self.top_p == 1:
            return (logits / self.temperature).softmax(-1)
        count = min(self.top_k, logits.shape[-1]) or logits.shape[-1]
        values, ids = logits.topk(count, -1)
        kept = (values / self.temperature).softmax(-1)
        if self.top_p < 1:
            before = kept.cumsum(-1) - kept
            kept = kept.masked_fill_(before >= self.top_p, 0.0)
            kept = kept / kept.sum(-1, keepdim=True)
        return torch.zeros_like(logits).scatter_(-1, ids, kept)

    def prepared(
        self,
        logits: Laws,
        history: History,  # noqa: ARG002 - of transforms that look back
        positions: Places,
        stop: "StopRule",  # noqa: ARG002
    ) -> Laws:
        """Return logits with ids at -inf that a position of a frame cannot hold."""
        if self.slots is None:
            return logits
        return logits.masked_fill(self.slots.barred(positions, logits.shape[-1]), float("-inf"))

    def barred_of(self, stop: "StopRule") -> Bool[Tensor, " vocab"]:
        """Return the ids that are impossible before the minimum length."""
        return stop.is_stop

    def settings(self) -> sample.Sampling:
        """Return the settings for native code."""
        top_k = min(self.top_k, sample.MOST)
        ends = int(self.end_when_likeliest)
        return sample.Sampling(self.temperature, self.top_p, top_k, end_when_likeliest=ends)


@functools.cache
def settings_of(sampler: Sampler) -> sample.Sampling:
    """Return the sampler's settings for native code; one object per sampler."""
    settings = sampler.settings()
    if sampler.slots is not None:
        settings.set_slots(sampler.slots.ends, end_in_frame=sampler.slots.end_in_frame)
    return settings


def ended(law: Laws, logits: Laws, stop: "StopRule") -> Laws:
    """The distribution where the likeliest token is no stop id; where it is one, that id alone."""
    sure = stop.is_stop[logits.argmax(-1, keepdim=True)]
    return torch.where(sure, likeliest(logits), law)


def likeliest(logits: Laws) -> Laws:
    """The one-hot distribution of the largest logit, NaN where that is not finite."""
    top, best = logits.max(-1, keepdim=True)
    return torch.zeros_like(logits).scatter_(-1, best, 1 + 0 * top)


@dataclass(frozen=True)
class StopRule:
    """Ids that end an utterance, and the length before which they cannot."""

    is_stop: Bool[Tensor, " vocab"]
    minimum: Int64[Tensor, " batch"]
    prompted: Bool[Tensor, "batch vocab"]  # ids in the prompt, for penalties

    @classmethod
    def build(
        cls,
        stop_ids: tuple[int, ...],
        vocab_size: int,
        minimum: list[int],
        device: torch.device,
        prompts: list[tuple[int, ...]] | None = None,
    ) -> "StopRule":
        """Build it from plain numbers; `prompts` are the speech ids in each row's prompt."""
        is_stop = torch.zeros(vocab_size, dtype=torch.bool, device=device)
        is_stop[list(stop_ids)] = True
        batch = len(minimum)
        rows = torch.zeros(batch, dtype=torch.int64, device=device)
        made = cls(is_stop, rows, is_stop.new_zeros(batch, vocab_size))
        made.load(minimum, prompts or [()] * batch)
        return made

    def row(self, index: int) -> "StopRule":
        """Return the stop rule of one row, in the same tensors."""
        at = slice(index, index + 1)
        return StopRule(self.is_stop, self.minimum[at], self.prompted[at])

    def load(self, minimum: list[int], prompts: list[tuple[int, ...]]) -> None:
        """Take other utterances, in the same tensors."""
        self.minimum.copy_(torch.tensor(minimum))
        self.prompted.zero_()
        for row, ids in enumerate(prompts):
            if ids:
                self.prompted[row, list(ids)] = True

    def mask(self, logits: Laws, positions: Places) -> Laws:
        """Return logits in which stop ids are impossible before the minimum length."""
        early = positions < self.minimum[:, None]
        if readable(early) and not early.any():
            return logits
        return logits.masked_fill(early[..., None] & self.is_stop, float("-inf"))
