"""A small recurrent layer that drafts from a target's states: h' = h + out silu(inner [h, e]).

h is the state that the newest token was drawn from, after the target's final norm, and e that
token's input embedding; the target's head reads h' as its own states. Embedding and head here are
the target's. sst-export puts this file beside such weights: AutoModel.from_pretrained(folder,
trust_remote_code=True). It imports nothing of ours.
"""

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel


class RecurrentDrafterConfig(PreTrainedConfig):  # type: ignore[no-untyped-call]
    """Sizes; `width` is the layer's inner one."""

    model_type = "recurrent_drafter"
    hidden_size: int = 64
    width: int = 512
    vocab_size: int = 256


class RecurrentDrafter(PreTrainedModel):
    """No model by itself: it goes on from the states of its target."""

    config_class = RecurrentDrafterConfig

    def __init__(self, config: RecurrentDrafterConfig) -> None:
        super().__init__(config)
        hidden = config.hidden_size
        self.embed_tokens = nn.Embedding(config.vocab_size, hidden)
        self.inner = nn.Linear(2 * hidden, config.width)
        self.out = nn.Linear(config.width, hidden)
        # the bias of a row that is never said is -inf
        self.lm_head = nn.Linear(hidden, config.vocab_size)
        self.post_init()  # type: ignore[no-untyped-call]

    def forward(self, states: Tensor, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [batch, vocab] of what follows `input_ids` [batch], and the states they are of.

        `states` [batch, hidden] are those that `input_ids` were drawn from: the target's, then
        these.
        """
        both = torch.cat([states, self.embed_tokens(input_ids)], -1)
        states = states + self.out(nn.functional.silu(self.inner(both)))
        return self.lm_head(states), states

    @torch.no_grad()
    def draft(self, states: Tensor, input_ids: Tensor, lookahead: int) -> Tensor:
        """The likeliest tokens behind `input_ids` [batch], each after the one before.

        Returns [batch, lookahead].
        """
        drafted = [input_ids]
        for _ in range(lookahead):
            logits, states = self(states, drafted[-1])
            drafted.append(logits.argmax(-1))
        return torch.stack(drafted[1:], -1)
