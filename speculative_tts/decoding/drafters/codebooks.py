"""A talker's own heads as the drafter: the next codes of a frame at once, from one state.

The newest code was drawn from a state of the depth decoder. The frozen head of each codebook after
it reads that state, moved by a small step of its offset (`models.codebook_offsets`), and says its
code's distribution; each code is drawn from its own. A pass of the depth decoder then verifies all.

Drafts stay within a frame and leave out its last code: to feed that one is a pass of the backbone,
which would be lost with any rejected code. Nor is anything drafted from the backbone's own state.
So of C codes a frame, 0 and C - 1 never are drafts, and 1 is none.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from speculative_tts.assets import require
from speculative_tts.decoding.batch import BatchState, Size
from speculative_tts.decoding.blocks.choosers import IndependentHeads
from speculative_tts.decoding.drafters.drafter import Laws, PerRow, most, room
from speculative_tts.decoding.drafters.newest import NewestStates
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.codebook_offsets import CodebookOffsets, load_offsets
from speculative_tts.models.families.csm.lm import CsmLM
from speculative_tts.provenance import content_hash
from speculative_tts.schema.drafters import CodebooksDrafterConfig

if TYPE_CHECKING:
    from speculative_tts.decoding.builder import Builder


@dataclass(frozen=True)
class CodebooksDrafter:
    """Drafts codes of a frame; without offsets the heads read the state as it is."""

    target: CsmLM
    offsets: CodebookOffsets | None = None

    @classmethod
    def build(cls, config: CodebooksDrafterConfig, parts: "Builder") -> Self:
        """Build the drafter of these settings."""
        target, own = parts.target, Path(parts.config.target.path)
        if not isinstance(target, CsmLM):
            raise ValueError(
                f"drafter=codebooks drafts the codes of a frame by a depth decoder, which {own} "
                "has not; give drafter=recurrent, heads or lm"
            )
        if config.path is None:
            return cls(target)
        folder = require(Path(config.path))
        sizes = target.depth.config.hidden, target.config.codebooks
        offsets = parts.keep(
            ("codebooks", content_hash(own)), config.path, lambda: load_offsets(folder, own, *sizes)
        )
        if parts.lookahead > offsets.n:
            raise ValueError(
                f"lookahead {parts.lookahead} is above the {offsets.n} offsets of {folder}; "
                "lower lookahead, or train more (n)"
            )
        parts.facts["codebooks"] = content_hash(folder)
        return cls(target, offsets)

    @property
    def reach(self) -> int:
        """See `Drafter`."""
        within = max(self.target.config.codebooks - 3, 1)
        return within if self.offsets is None else min(within, self.offsets.n)

    def start(self, size: Size) -> "CodebooksDrafting":  # noqa: ARG002
        """See `Drafter`."""
        return CodebooksDrafting(self)


class CodebooksDrafting(NewestStates[CodebooksDrafter]):
    """One batch's newest states."""

    def native(self, sampler: Sampler, lookahead: int) -> None:
        """See `Drafting`."""

    def propose(self, rows: BatchState, sampler: Sampler, lookahead: int) -> tuple[PerRow, Laws]:
        """See `Drafting`."""
        codebooks = self._drafter.target.config.codebooks
        book = (rows.count - 1) % codebooks  # of each row's newest code
        within = torch.where(book == 0, 0, codebooks - 2 - book).clamp(min=0)
        drafted = torch.minimum(room(rows, lookahead), within)
        number = most(drafted, lookahead)
        if not number:
            return drafted, torch.empty(len(book), 0, self._drafter.target.vocab_size)
        logits = self._logits(rows.last(1)[:, 0], book, number)
        return drafted, IndependentHeads(sampler).draft(logits, rows)

    def _logits(self, newest: Tensor, book: PerRow, number: int) -> Laws:
        """Return the logits [batch, number, vocab] of the codes after the newest one."""
        target, offsets = self._drafter.target, self._drafter.offsets
        assert self.hidden is not None
        states = self.hidden[:, : target.depth.config.hidden]
        inputs = target.within(newest.clamp(max=target.config.codes - 1)).float()
        found = []
        for offset in range(1, number + 1):
            books = (book + offset) % target.config.codebooks
            moved = states if offsets is None else offsets(states, inputs, offset, books)
            wide = F.pad(moved, (0, target.width - moved.shape[1]))
            found.append(torch.cat([wide, books[:, None].float()], 1))
        return target.logits(torch.stack(found, 1))
