"""A small recurrent layer on the target's newest state as the drafter (EAGLE and Hydra family).

It reads the state that the newest token was drawn from and that token, and makes the state after
it; the target's head says the next token's distribution, and both go in again. It has neither
prompt nor cache.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from speculative_tts.decoding.batch import BatchState, Size
from speculative_tts.decoding.drafters.drafter import Laws, PerRow
from speculative_tts.decoding.drafters.drafts import Drafts
from speculative_tts.decoding.drafters.newest import NewestStates
from speculative_tts.decoding.sampling.sampler import Sampler
from speculative_tts.models.families.code_lm import CodeLM
from speculative_tts.models.recurrent import RecurrentLayer
from speculative_tts.native import recurrent
from speculative_tts.native.walk import NativeDrafter
from speculative_tts.schema.drafters import RecurrentDrafterConfig

if TYPE_CHECKING:
    from speculative_tts.decoding.builder import Builder


@dataclass(frozen=True)
class RecurrentDrafter:
    """Drafts token by token from the target's hidden state."""

    target: CodeLM  # its embedding
    layer: RecurrentLayer
    reach: ClassVar[None] = None

    @classmethod
    def build(cls, config: RecurrentDrafterConfig, parts: "Builder") -> Self:
        """Build the drafter of these settings: a layer with the target's embedding and head."""
        target = parts.target
        if not isinstance(target, CodeLM):
            raise ValueError(
                "drafter=recurrent feeds codes as rows of an embedding, which "
                f"{parts.config.target.path} is not fed; give drafter=lm or drafter=lookup"
            )
        return cls(target, parts.recurrent_layer(config, target))

    def start(self, size: Size) -> "RecurrentDrafting":  # noqa: ARG002
        """See `Drafter`."""
        return RecurrentDrafting(self)


class RecurrentDrafting(NewestStates[RecurrentDrafter]):
    """One batch's newest states."""

    def native(self, sampler: Sampler, lookahead: int) -> NativeDrafter | None:  # noqa: ARG002 - any
        """See `Drafting`: native if the layer is; it reads the states in place."""
        native = self._drafter.layer.native
        if native is None or self.hidden is None:
            return None
        return recurrent.drafter(native, self.hidden)

    def propose(self, rows: BatchState, sampler: Sampler, lookahead: int) -> tuple[PerRow, Laws]:
        """See `Drafting`."""
        assert self.hidden is not None
        target, layer, state = self._drafter.target, self._drafter.layer, self.hidden
        drafts = Drafts(rows, rows.lengths, lookahead)
        for _ in drafts:
            state = layer(state, target.embed(drafts.ids[:, 0]))
            drafts.add(sampler, layer.logits(state))
        return drafts.result(target.vocab_size)
