"""State of the utterances decoded together: tokens so far, each row with its own length."""

from copy import copy
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from speculative_tts.decoding.gpu import rounds
from speculative_tts.decoding.gpu.launch import runs
from speculative_tts.decoding.sampling.randomness import DRAWS, NEXT, uniforms
from speculative_tts.decoding.sampling.sampler import StopRule

Block = Int64[Tensor, "batch number"]
SMALLEST = 256  # positions of the smallest bucket


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
    prompt_tokens: tuple[int, ...] = ()  # speech ids in the prompt, in order
    last_code: int | None = None  # the prompt's last, where it has any

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ValueError(f"{self.id}: max_tokens {self.max_tokens} is below 1; give 1 or more")
        if self.min_tokens > self.max_tokens:
            raise ValueError(
                f"{self.id}: min_tokens {self.min_tokens} is above max_tokens {self.max_tokens}; "
                "lower the one or raise the other"
            )


def lengths_of(prompts: list[Tensor]) -> Int64[Tensor, " batch"]:
    """Return the number of positions of each prompt."""
    return torch.tensor([len(p) for p in prompts])


@dataclass(frozen=True)
class Size:
    """Sizes of a batch's tensors: rows, positions of each, and tokens, drafts included."""

    batch: int
    positions: int
    tokens: int

    @classmethod
    def of(cls, requests: list[Request], slack: int) -> "Size":
        """Return the size that these requests need with `slack` drafted tokens."""
        tokens = max(r.max_tokens for r in requests) + slack + 1
        longest = max(
            len(prompt) + r.max_tokens
            for r in requests
            for prompt in (r.prompt, r.draft_prompt)
            if prompt is not None
        )
        return cls(len(requests), longest + slack + 1, tokens)

    def bucket(self) -> "Size":
        """Return the smallest of the few sizes that batches share which holds this one."""
        longest = max(SMALLEST, 1 << (self.positions - 1).bit_length())
        return Size(self.batch, longest, longest)


@dataclass(frozen=True)
class Inputs:
    """Inputs of a pass over each row's newest tokens, and the positions that follow."""

    ids: Block  # ids that a model can be fed, also where a row has none
    start: Int64[Tensor, " batch"]  # position of the first of them in a cache
    positions: Int64[Tensor, "batch ahead"]  # output positions of the next tokens
    room: Int64[Tensor, " batch"]  # tokens that may be drafted: the one after them must fit
    newest: Int64[Tensor, " batch"]  # index of the newest committed token among ids


class ByRow:
    """Base of classes that hold a batch, one of whose rows is a batch of its own."""

    by_row: ClassVar[tuple[str, ...]]  # names of what each row has a part of

    def row(self, index: int) -> Self:
        """Return one row, in the same tensors, once a batch is loaded."""
        one = copy(self)
        for name in self.by_row:
            whole = getattr(self, name)
            part = whole.row(index) if hasattr(whole, "row") else whole[index : index + 1]
            setattr(one, name, part)
        return one


class BatchState(ByRow):
    """Tokens of a batch, in tensors that stay where they are.

    `tokens` holds drafts beyond `count`; what lies after `count` is provisional. Where there was no
    distribution (logits are NaN or infinite) the token is `vocab_size`, which ends the row like a
    stop id: nothing has to be looked at before the batch is over.
    """

    requests: list[Request]
    by_row = (
        *("tokens", "lengths", "limit", "count", "done", "uniforms", "again"),
        *("stop", "requests"),
    )

    def __init__(
        self,
        size: Size,
        stop_ids: tuple[int, ...],
        vocab_size: int,
        device: torch.device,
        again: int = 0,
    ) -> None:
        """Allocate what `load` fills; `again` positions have uniforms of each round's own."""
        batch = size.batch
        self.tokens = torch.zeros(batch, size.tokens, dtype=torch.int64, device=device)
        self.lengths, self.limit, self.count = self.tokens.new_zeros(3, batch).unbind()
        self.done = torch.zeros(batch, dtype=torch.bool, device=device)
        self.stop = StopRule.build(stop_ids, vocab_size, [0] * batch, device)
        self.ends = F.pad(self.stop.is_stop, (0, 1), value=True)  # bool [vocab + 1]
        shape = (batch, size.tokens, DRAWS)
        self.uniforms = torch.zeros(shape, dtype=torch.float64, device=device)
        self.again = self.uniforms.new_zeros(batch, size.tokens if again else 0, again, DRAWS)

    @classmethod
    def of(
        cls, requests: list[Request], stop_ids: tuple[int, ...], vocab_size: int, slack: int
    ) -> "BatchState":
        """Build and load the state of one batch."""
        rows = cls(Size.of(requests, slack), stop_ids, vocab_size, requests[0].prompt.device)
        rows.load(requests)
        return rows

    def load(self, requests: list[Request]) -> None:
        """Begin a batch of these requests."""
        self.requests = requests
        for static in (self.tokens, self.count, self.done):
            static.zero_()
        self.lengths.copy_(lengths_of([r.prompt for r in requests]))
        self.limit.copy_(torch.tensor([r.max_tokens for r in requests]))
        self.stop.load([r.min_tokens for r in requests], [r.prompt_tokens for r in requests])
        _, starts, again, _ = self.again.shape
        cpu, capacity = torch.device("cpu"), self.tokens.shape[1]
        keys = [(r.seed, r.id) for r in requests]
        self.uniforms.copy_(uniforms(keys, capacity, device=cpu))
        if again:
            own = uniforms(
                [(r.seed, f"{r.id}\0again") for r in requests], starts * again, device=cpu
            )
            self.again.copy_(own.view(self.again.shape))

    @property
    def finished(self) -> bool:
        """True if all rows are done. The host waits for the device."""
        return bool(self.done.all())

    @property
    def start(self) -> Int64[Tensor, " batch"]:
        """Position of each row's newest token, which no cache holds yet."""
        return self.lengths + self.count - 1

    def last(self, number: int) -> Block:
        """Return the newest `number` tokens of each row."""
        return self.window(-number, number)

    def window(self, offset: int, number: int) -> Block:
        """Return the tokens at count + offset .. count + offset + number of each row.

        They are ids that a model can be fed, also where there are none: before the beginning of a
        row that ended with its first token, and in place of a token without a law.
        """
        index = self.positions(number) + offset
        found = self.tokens.gather(1, index.clamp(min=0))
        return found.clamp_(max=len(self.ends) - 2)

    def inputs(
        self, lengths: Int64[Tensor, " batch"], behind: int, ahead: int = 0, lookahead: int = 0
    ) -> Inputs:
        """Return the inputs of a model with prompts of these lengths: newest tokens, and drafts.

        Fed are the `behind` newest tokens and `ahead` drafted ones; of a row with fewer what comes
        after its first. `lookahead` tokens are drafted at most.
        """
        if runs(self.count):
            return Inputs(*rounds.inputs(self, lengths, behind, ahead, lookahead))
        left = torch.where(self.done, 0, self.limit - self.count - 1)
        return Inputs(
            ids=self.window(-behind, behind + ahead),
            start=lengths + (self.count - behind).clamp(min=0),
            positions=self.positions(ahead + 1),
            room=left.clamp(min=0, max=lookahead),
            newest=self.count.clamp(max=behind) - 1,
        )

    def positions(self, number: int) -> Block:
        """Return the output positions of the next `number` tokens."""
        return self.count[:, None] + torch.arange(number, device=self.count.device)

    def next_positions(self, number: int) -> Block:
        """Return `positions`, by a kernel where those run."""
        return self.inputs(self.lengths, behind=1, ahead=number - 1).positions

    def uniform(self, positions: Block, purpose: int) -> Float64[Tensor, "batch number"]:
        """Return the uniforms of one purpose at output positions."""
        return self.uniforms[:, :, purpose].gather(1, positions)

    def random(self, number: int, *purposes: int) -> Float64[Tensor, "batch number purposes"]:
        """Return the uniforms of some purposes at the positions of the next `number` tokens."""
        positions = self.positions(number)
        return torch.stack([self.uniform(positions, purpose) for purpose in purposes], -1)

    def renew(self) -> None:
        """Draw the uniforms of the next positions anew, where rounds have their own.

        They are keyed by the position at which the round begins, and by the distance from it.
        """
        again = self.again.shape[2]
        if again and runs(self.count):
            rounds.renew(self)
        elif again:
            row, last = torch.arange(len(self.count), device=self.count.device), NEXT
            self.uniforms[row[:, None], self.positions(again), :last] = self.again[row, self.count][
                ..., :last
            ]

    def emit(
        self, accepted: Int64[Tensor, " batch"], token: Int64[Tensor, " batch"]
    ) -> Bool[Tensor, " batch"]:
        """Commit `accepted` drafted tokens and then `token`.

        Return where `token` was dropped, because those before end with a stop id.
        """
        end = self.count + accepted
        before = self.tokens.gather(1, (end - 1).clamp(min=0)[:, None])[:, 0]
        ended = (accepted > 0) & self.ends[before]
        self.tokens.scatter_(1, end[:, None], token[:, None])
        self.grow(end + ~ended, ended | self.ends[token])
        return ended

    def commit(self, block: Block) -> None:
        """Commit a block of tokens, cut after its first stop id and at the limit."""
        n = block.shape[1]
        self.tokens.scatter_(1, self.positions(n), block)
        going = self.ends[block].cumsum(1) == 0
        grown = self.count + (going.sum(1) + 1).clamp(max=n)
        self.grow(torch.minimum(grown, self.limit), ~going[:, -1])

    def grow(self, count: Int64[Tensor, " batch"], stopped: Bool[Tensor, " batch"]) -> None:
        """Set the counts of rows that are not done, and note which are done now."""
        self.count.copy_(torch.where(self.done, self.count, count))
        self.done.logical_or_(stopped | (count >= self.limit))
