"""Look-up as the drafter, for nothing: what followed the newest tokens when they were said before.

Prompt look-up (Saxena, 2023) over the voice prompt's codes and the speech so far. What is proposed
hangs on tokens that stay, not on chance: its distribution is one-hot.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from jaxtyping import Int64
from torch import Tensor

from speculative_tts.decoding.batch import BatchState, ByRow, Request, Size
from speculative_tts.decoding.drafters.drafter import Laws, PerRow, States, most, room, up_to_stop
from speculative_tts.decoding.gpu import blocks
from speculative_tts.decoding.gpu.launch import runs
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.native import lookup
from speculative_tts.native.walk import NativeDrafter
from speculative_tts.schema.drafters import LookupDrafterConfig

if TYPE_CHECKING:
    from speculative_tts.decoding.builder import Builder

NOTHING = -1  # where nothing was said


@dataclass(frozen=True)
class LookupDrafter:
    """Copies what follows the newest of the longest matches, of `shortest` to `longest` tokens."""

    vocab_size: int
    device: torch.device
    longest: int = 3
    shortest: int = 1
    reach: ClassVar[None] = None

    @classmethod
    def build(cls, config: LookupDrafterConfig, parts: "Builder") -> Self:
        """Build the drafter of these settings."""
        if config.shortest > config.longest:
            raise ValueError(
                f"drafter.shortest {config.shortest} is above drafter.longest {config.longest}; "
                "lower the one or raise the other"
            )
        return cls(parts.target.vocab_size, parts.device, config.longest, config.shortest)

    def start(self, size: Size) -> "LookupDrafting":
        """See `Drafter`."""
        return LookupDrafting(self, size)


class LookupDrafting(ByRow):
    """One batch's prompts."""

    by_row = ("_heard",)

    def __init__(self, drafter: LookupDrafter, size: Size) -> None:
        self._drafter = drafter
        shape = (size.batch, size.positions)
        self._heard = torch.full(shape, NOTHING, device=drafter.device)

    def load(self, requests: list[Request]) -> None:
        """See `Drafting`."""
        self._heard.fill_(NOTHING)
        for row, request in enumerate(requests):
            if request.prompt_tokens:
                ids = torch.tensor(request.prompt_tokens)
                self._heard[row, -len(ids) :] = ids

    def propose(
        self,
        rows: BatchState,
        sampler: Sampler,  # noqa: ARG002 - nothing is drawn
        lookahead: int,
    ) -> tuple[PerRow, Laws]:
        """See `Drafting`; nothing after tokens that were never said before."""
        vocab = self._drafter.vocab_size
        if runs(rows.count):
            lengths = self._drafter.longest, self._drafter.shortest
            return blocks.looked_up(rows, self._heard, lookahead, lengths, vocab)
        said = torch.cat([self._heard, rows.tokens], 1)
        newest = self._heard.shape[1] + rows.count - 1
        place = self._match(said, newest)
        period = newest - place  # a copy that reaches the newest token goes on with itself
        step = torch.arange(lookahead, device=said.device) % period[:, None]
        guess = said.gather(1, (place[:, None] + 1 + step).clamp(min=0)).clamp(0, vocab - 1)
        rows.tokens.scatter_(1, rows.positions(lookahead), guess)
        drafted = up_to_stop(rows, torch.where(place < 0, 0, room(rows, lookahead)), lookahead)
        guess = guess[:, : most(drafted, lookahead)]
        laws = torch.zeros(*guess.shape, vocab, device=said.device)
        return drafted, laws.scatter_(-1, guess[..., None], 1.0)

    def native(self, sampler: Sampler, lookahead: int) -> NativeDrafter:  # noqa: ARG002 - any
        """See `Drafting`: always native; it reads the prompts in place."""
        return lookup.drafter(self._heard, self._drafter.longest, self._drafter.shortest)

    def _match(self, said: Int64[Tensor, "batch length"], newest: PerRow) -> PerRow:
        """Return where the longest match ends; NOTHING without one."""
        places = torch.arange(said.shape[1], device=said.device)
        alike = places < newest[:, None]
        run = torch.zeros_like(said)
        for back in range(self._drafter.longest):
            last = said.gather(1, (newest - back).clamp(min=0)[:, None])
            same = (said.roll(back, 1) == last) & (last >= 0)
            alike = alike & same & (places >= back)
            run = run + alike
        score = torch.where(run >= self._drafter.shortest, run * len(places) + places, NOTHING)
        best = score.amax(1)
        return torch.where(best < 0, NOTHING, best % len(places))

    def observe(self, hidden: States, accepted: PerRow) -> None:
        """See `Drafting`: what was said is in the rows."""
