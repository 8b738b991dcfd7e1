"""A block drafter of the `speculators` library (DFlash, DSpark): a round's tokens in one pass."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import torch

from speculative_tts.assets import require
from speculative_tts.decoding.batch import BatchState, ByRow, Request, Size
from speculative_tts.decoding.drafters.drafter import CacheReader, Laws, PerRow, States
from speculative_tts.decoding.drafters.drafts import Drafts
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.block_draft import BlockDraft, Taken
from speculative_tts.models.block_files import BlockConfig, draft_rows, read_block
from speculative_tts.models.block_head import BlockHead, Chain
from speculative_tts.models.block_target import BlockCache, BlockTarget
from speculative_tts.models.families.code_lm import CodeLM
from speculative_tts.schema.drafters import BlockDrafterConfig

if TYPE_CHECKING:
    from speculative_tts.decoding.builder import Builder


@dataclass(frozen=True)
class BlockDrafter(CacheReader):
    """Drafts a block from the target's states at all earlier positions and the newest token."""

    draft: BlockDraft
    head: BlockHead
    verifier: BlockTarget

    @classmethod
    def build(cls, config: BlockDrafterConfig, parts: "Builder") -> Self:
        """Build the drafter of these settings."""
        folder, target = require(Path(config.path)), parts.target
        if not isinstance(target, CodeLM):
            raise ValueError(
                "drafter=block reads the states of a causal LM's layers, which "
                f"{parts.config.target.path} is not; give drafter=lm or drafter=lookup"
            )
        order = parts.layout.order(text_rows=bool(parts.sampling.text_rows)).to(parts.device)
        drafter = parts.keep(
            ("block", parts.config.target.path, parts.sampling.text_rows, parts.dtype),
            config.path,
            lambda: cls.load(folder, target, order[: target.vocab_size], parts.dtype),
        )
        drafter.check(parts.lookahead, folder)
        return drafter

    @classmethod
    def load(cls, folder: Path, target: CodeLM, order: torch.Tensor, dtype: torch.dtype) -> Self:
        """Load a folder for a target; order: row of its vocabulary of each speech id."""
        config, state = read_block(folder)
        check_pair(config, target, folder)
        rows = draft_rows(config, state, folder)
        take = Taken(state, dtype, target.device)
        draft = BlockDraft(config, take)
        head = BlockHead(config, take, rows, target, order)
        take.done()
        return cls(draft, head, BlockTarget(target, draft))

    @property
    def reach(self) -> int:
        """See `Drafter`."""
        return self.draft.config.reach

    def check(self, lookahead: int, folder: Path) -> None:
        """Raise ValueError for more tokens a round than a block has."""
        if lookahead > self.reach:
            raise ValueError(
                f"lookahead {lookahead} is above the {self.reach} tokens that a block of {folder} "
                "drafts; lower lookahead"
            )

    def start_with(self, size: Size, cache: BlockCache) -> "BlockDrafting":  # noqa: ARG002
        """See `CacheReader`."""
        return BlockDrafting(self, cache)


class BlockDrafting(ByRow):
    """One batch's drafts, whose keys and values lie in the target's cache."""

    by_row = ("_cache",)

    def __init__(self, drafter: BlockDrafter, cache: BlockCache) -> None:
        self._drafter, self._cache = drafter, cache

    def load(self, requests: list[Request]) -> None:
        """See `Drafting`: the target's pass over the prompts stores what is read."""

    def propose(self, rows: BatchState, sampler: Sampler, lookahead: int) -> tuple[PerRow, Laws]:
        """See `Drafting`."""
        draft, head = self._drafter.draft, self._drafter.head
        drafts = Drafts(rows, rows.lengths, lookahead)
        states = draft(head.inputs(drafts.ids[:, 0]), self._cache.context, rows.start)
        chain = Chain(head, states, first=0 if draft.config.from_newest else 1)
        for _ in drafts:
            drafts.add(sampler, chain(drafts.ids[:, 0]))
        return drafts.result(head.vocab)

    def native(self, sampler: Sampler, lookahead: int) -> None:
        """See `Drafting`."""

    def observe(self, hidden: States, accepted: PerRow) -> None:
        """See `Drafting`: a rejected position's keys and values are overwritten later."""


def check_pair(config: BlockConfig, target: CodeLM, folder: Path) -> None:
    """Raise ValueError for a drafter whose sizes are not the target's."""
    own, theirs = config.layers, target.decoder.config
    pairs = {
        "hidden_size": (own.hidden, theirs.hidden),
        "vocab_size": (own.vocab_size, theirs.vocab_size),
    }
    for name, (one, other) in pairs.items():
        if one != other:
            raise ValueError(
                f"{folder} was made for a target of {name} {one}, this one has {other}; "
                "give a drafter that was trained on this target"
            )
    highest = max(config.read, default=0)
    if highest >= theirs.layers or not config.read or config.mask >= theirs.vocab_size:
        raise ValueError(
            f"{folder} reads the inputs of layers {list(config.read)} and masks with row "
            f"{config.mask}, the target has {theirs.layers} layers and {theirs.vocab_size} rows; "
            "give a drafter that was trained on this target"
        )
