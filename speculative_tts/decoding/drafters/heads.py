"""The target's own multi-token heads as the drafter, verified: no second model and no cache.

The token after a verification was drawn from a state of the target. The heads read that state: head
0 says that token's distribution, head i that of the i-th token after it. So the residual or bonus
token leads the next block, and n heads draft up to n - 1 tokens. `chooser` draws them with their
distributions: each from its own head, or a path through the lattice of all
(`decoding.blocks.choosers`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from speculative_tts.decoding.batch import BatchState, Size
from speculative_tts.decoding.blocks.choosers import Chooser
from speculative_tts.decoding.drafters.drafter import Laws, PerRow, most, room, up_to_stop
from speculative_tts.decoding.drafters.newest import NewestStates
from speculative_tts.decoding.gpu import blocks as on_gpu
from speculative_tts.decoding.gpu.launch import runs
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.heads import Heads
from speculative_tts.native import blocks
from speculative_tts.native.walk import NativeDrafter
from speculative_tts.schema.drafters import HeadsDrafterConfig

if TYPE_CHECKING:
    from speculative_tts.decoding.builder import Builder


def check_lookahead(lookahead: int, heads: Heads) -> None:
    """Raise ValueError for more tokens than there are heads after head 0."""
    if lookahead >= heads.n:
        raise ValueError(
            f"lookahead {lookahead} needs {lookahead + 1} heads, there are {heads.n}; "
            "lower lookahead or raise heads.n"
        )


@dataclass(frozen=True)
class HeadsDrafter:
    """Drafts a block at once from the target's hidden state."""

    heads: Heads
    chooser: Chooser

    @classmethod
    def build(cls, config: HeadsDrafterConfig, parts: "Builder") -> Self:  # noqa: ARG003 - keys of the engine
        """Build the drafter of the heads that the engine's settings name."""
        check_lookahead(parts.lookahead, parts.multi.heads)
        return cls(parts.multi.heads, parts.multi.choose)

    @property
    def reach(self) -> int:
        """See `Drafter`: the heads after head 0."""
        return self.heads.n - 1

    def start(self, size: Size) -> "HeadsDrafting":  # noqa: ARG002
        """See `Drafter`."""
        return HeadsDrafting(self)


class HeadsDrafting(NewestStates[HeadsDrafter]):
    """One batch's newest states."""

    def native(self, sampler: Sampler, lookahead: int) -> NativeDrafter | None:
        """See `Drafting`: native if heads and chooser are; it reads the states in place."""
        heads, chosen = self._drafter.heads.native, self._drafter.chooser.native
        if heads is None or chosen is None or self.hidden is None:
            return None
        own, search = chosen
        if search is None and own != sampler:  # the batch's draws from each head
            return None
        check_lookahead(lookahead, self._drafter.heads)
        return blocks.drafter(heads, search, self.hidden)

    def propose(
        self,
        rows: BatchState,
        sampler: Sampler,  # noqa: ARG002 - the chooser has its own
        lookahead: int,
    ) -> tuple[PerRow, Laws]:
        """See `Drafting`."""
        check_lookahead(lookahead, self._drafter.heads)
        assert self.hidden is not None
        # The whole block, also where fewer fit: a path hangs on all heads, not on other rows' room.
        laws = self._drafter.chooser.draft(
            self._drafter.heads(self.hidden)[:, 1 : lookahead + 1], rows
        )
        if runs(laws):
            return on_gpu.drafted(rows, lookahead), laws
        drafted = up_to_stop(rows, room(rows, lookahead), lookahead)
        return drafted, laws[:, : most(drafted, lookahead)]
