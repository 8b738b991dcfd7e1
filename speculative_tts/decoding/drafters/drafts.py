"""The tokens of one round, drafted one after the other."""

from collections.abc import Iterator

import torch
from torch import Tensor

from speculative_tts.decoding.batch import BatchState
from speculative_tts.decoding.drafters.drafter import Laws, PerRow, most
from speculative_tts.decoding.gpu import rounds
from speculative_tts.decoding.gpu.launch import runs
from speculative_tts.decoding.rules.acceptance import entropy
from speculative_tts.decoding.sampling.randomness import DRAFT, draw
from speculative_tts.decoding.sampling.sampler import Sampler


class Drafts:
    """Draws tokens, writes them to `rows` provisionally, and says what the next pass is fed.

    `lengths` are those of the drafter's prompts, `behind` the newest tokens that it is fed first.
    `doubt`: a row's last drafted token is one whose distribution has more entropy (nats).
    """

    def __init__(
        self,
        rows: BatchState,
        lengths: PerRow,
        lookahead: int,
        behind: int = 1,
        doubt: float | None = None,
    ) -> None:
        given = rows.inputs(lengths, behind, lookahead=lookahead)
        self._rows, self._lengths, self._doubt = rows, lengths, doubt
        self._lookahead = lookahead
        self._laws: list[Tensor] = []
        self.ids, self.start, self._position = given.ids, given.start, given.positions
        self.newest, self.drafted = given.newest, given.room

    def __iter__(self) -> Iterator[int]:
        """Yield the number of each token that some row still needs."""
        while len(self._laws) < most(self.drafted, self._lookahead):
            yield len(self._laws)

    def add(self, sampler: Sampler, logits: Tensor) -> None:
        """Draw the next token of each row by its logits [batch, vocab]."""
        rows, position, step = self._rows, self._position, len(self._laws)
        law = sampler(logits[:, None], rows.tokens, position, rows.stop)
        self._laws.append(law)
        if runs(law):
            self.ids, self.start, self._position = rounds.drafted(
                rows, self._lengths, law, step, self.drafted, self._doubt
            )
            return
        token = draw(law, rows.uniform(position, DRAFT))
        rows.tokens.scatter_(1, position, token)
        stopped = rows.ends[token[:, 0]]
        if self._doubt is not None:
            stopped = stopped | (entropy(law[:, 0].double()) > self._doubt)  # as native rounds
        self.drafted = torch.where(stopped, self.drafted.clamp(max=step + 1), self.drafted)
        self.ids = token.clamp(max=logits.shape[-1] - 1)
        self.start, self._position = self._lengths + position[:, 0], position + 1

    def result(self, vocab: int) -> tuple[PerRow, Laws]:
        """Return how many tokens of each row count, and the distributions they were drawn from."""
        if len(self._laws) == 1:
            return self.drafted, self._laws[0]
        nothing = torch.empty(len(self.drafted), 0, vocab, device=self.drafted.device)
        return self.drafted, torch.cat(self._laws, 1) if self._laws else nothing
