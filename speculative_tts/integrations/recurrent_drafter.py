"""Define a small recurrent layer that drafts from states: h <- h + out silu(inner [h, e]).

That is a block, and a layer one or more of them. h is the state that the newest token was drawn
from, after the target's final norm, and e that token's input embedding; the target's head reads
the last block's h as its own states. Embedding and head here are the target's. sst-export puts this
file beside such weights: AutoModel.from_pretrained(folder, trust_remote_code=True). It imports
nothing of ours.
"""

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel


class RecurrentDrafterConfig(PreTrainedConfig):  # type: ignore[no-untyped-call]
    """Sizes; `width` is a block's inner one."""

    model_type = "recurrent_drafter"
    hidden_size: int = 64
    width: int = 512
    blocks: int = 1
    vocab_size: int = 256


class DraftStep(nn.Module):
    """One step of the formula above: states and inputs, [batch, hidden] each, to states."""

    def __init__(self, hidden: int, width: int) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(2 * hidden, width), nn.Linear(width, hidden)

    def forward(self, states: Tensor, inputs: Tensor) -> Tensor:
        """Apply the formula above."""
        both = torch.cat([states, inputs], -1)
        more: Tensor = self.out(nn.functional.silu(self.inner(both)))
        return states + more


class RecurrentDrafter(PreTrainedModel):
    """A drafter that continues from the states of its target; not a model by itself."""

    config_class = RecurrentDrafterConfig

    def __init__(self, config: RecurrentDrafterConfig) -> None:
        super().__init__(config)
        hidden = config.hidden_size
        self.embed_tokens = nn.Embedding(config.vocab_size, hidden)
        self.blocks = nn.ModuleList(DraftStep(hidden, config.width) for _ in range(config.blocks))
        # the bias of a row that is never said is -inf
        self.lm_head = nn.Linear(hidden, config.vocab_size)
        self.post_init()  # type: ignore[no-untyped-call]

    def forward(self, states: Tensor, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits [batch, vocab] of the token after `input_ids` [batch], and their states.

        `states` [batch, hidden] are those that `input_ids` were drawn from: the target's, later
        the returned ones.
        """
        inputs = self.embed_tokens(input_ids)
        for block in self.blocks:
            states = block(states, inputs)
        return self.lm_head(states), states

    @torch.no_grad()
    def draft(self, states: Tensor, input_ids: Tensor, lookahead: int) -> Tensor:
        """Return the likeliest tokens [batch, lookahead] after `input_ids` [batch], one by one."""
        drafted = [input_ids]
        for _ in range(lookahead):
            logits, states = self(states, drafted[-1])
            drafted.append(logits.argmax(-1))
        return torch.stack(drafted[1:], -1)
