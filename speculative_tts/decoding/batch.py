"""State of the utterances decoded together: tokens so far, each row with its own length."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from speculative_tts.decoding.randomness import uniforms
from speculative_tts.decoding.sampling import StopRule


@dataclass(frozen=True)
class Request:
    """One utterance to decode.

    Its prompt as each model's input ([length, hidden]) and its length limits in tokens.
    """

    id: str
    prompt: Tensor
    draft_prompt: Tensor | None
    min_tokens: int
    max_tokens: int
    seed: int
    prompt_tokens: tuple[int, ...] = ()  # speech ids in the prompt, where a sampler counts them
    last_code: int | None = None  # the prompt's last, where it has any

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ValueError(f"{self.id}: max_tokens {self.max_tokens} is below 1; give 1 or more")
        if self.min_tokens > self.max_tokens:
            raise ValueError(
                f"{self.id}: min_tokens {self.min_tokens} is above max_tokens {self.max_tokens}; "
                "lower the one or raise the other"
            )


def lengths_of(prompts: list[Tensor]) -> Tensor:
    """Positions of each prompt: int64 [batch]."""
    return torch.tensor([len(p) for p in prompts], device=prompts[0].device)


class BatchState:
    """Tokens of a batch.

    `tokens` holds drafts beyond `count`; what lies behind `count` is provisional. Where there was
    no law (logits are NaN or infinite) the token is `vocab_size`, which ends the row like a stop
    id: nothing has to be looked at before the batch is over.
    """

    def __init__(
        self, requests: list[Request], stop_ids: tuple[int, ...], vocab_size: int, slack: int
    ) -> None:
        device = requests[0].prompt.device
        capacity = max(r.max_tokens for r in requests) + slack + 1
        self.requests = requests
        self.capacity = capacity
        self.tokens = torch.zeros(len(requests), capacity, dtype=torch.int64, device=device)
        self.count = torch.zeros(len(requests), dtype=torch.int64, device=device)
        self.done = torch.zeros(len(requests), dtype=torch.bool, device=device)
        self.limit = torch.tensor([r.max_tokens for r in requests], device=device)
        self.stop = StopRule.build(
            stop_ids,
            vocab_size,
            [r.min_tokens for r in requests],
            device,
            [r.prompt_tokens for r in requests],
        )
        self.ends = F.pad(self.stop.is_stop, (0, 1), value=True)  # bool [vocab + 1]
        self.uniforms = torch.cat(
            [uniforms(r.seed, [r.id], capacity, device=device) for r in requests]
        )
        self._finished = False

    @property
    def finished(self) -> bool:
        """Are all rows done (the one place a round waits for the device)."""
        return self._finished

    def last(self, number: int) -> Tensor:
        """The newest `number` tokens of each row: [batch, number]."""
        return self.window(-number, number)

    def window(self, offset: int, number: int) -> Tensor:
        """Tokens at count + offset .. count + offset + number of each row: [batch, number].

        They are ids that a model can be fed, also where there are none: before the beginning of a
        row that ended with its first token, and in place of a token without a law.
        """
        steps = torch.arange(offset, offset + number, device=self.count.device)
        index = self.count[:, None] + steps
        return self.tokens.gather(1, index.clamp(min=0)).clamp_(max=len(self.ends) - 2)

    def positions(self, number: int) -> Tensor:
        """Output positions of the next `number` tokens: [batch, number]."""
        return self.count[:, None] + torch.arange(number, device=self.count.device)

    def uniform(self, positions: Tensor, purpose: int) -> Tensor:
        """Uniforms of one purpose at output positions [batch, n]: float64 [batch, n]."""
        return self.uniforms[:, :, purpose].gather(1, positions)

    def emit(self, accepted: Tensor, token: Tensor) -> None:
        """Commit `accepted` drafted tokens and then `token`, which is dropped behind a stop id.

        Both int64 [batch].
        """
        end = self.count + accepted
        before = self.tokens.gather(1, (end - 1).clamp(min=0)[:, None])[:, 0]
        ended = (accepted > 0) & self.ends[before]
        self.tokens.scatter_(1, end[:, None], token[:, None])
        grown = end + ~ended
        stopped = ended | self.ends[token] | (grown >= self.limit)
        self.count = torch.where(self.done, self.count, grown)
        self.done = self.done | stopped
        self._finished = bool(self.done.all())

    def finish(self) -> None:
        """All rows have their last token."""
        self.done = torch.ones_like(self.done)
        self._finished = True

    def commit(self, block: Tensor) -> None:
        """Commit a block of tokens [batch, n], cut behind its first stop id and at the limit."""
        n = block.shape[1]
        self.tokens.scatter_(1, self.positions(n), block)
        going = self.ends[block].cumsum(1) == 0
        grown = torch.minimum(self.count + (going.sum(1) + 1).clamp(max=n), self.limit)
        stopped = ~going[:, -1] | (grown >= self.limit)
        self.count = torch.where(self.done, self.count, grown)
        self.done = self.done | stopped
        self._finished = bool(self.done.all())
