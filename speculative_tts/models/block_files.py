"""Read a block drafter that the `speculators` library wrote: DFlash (2602.06036) and DSpark.

The folder holds config.json (`speculators_model_type`, the draft layers' own configuration, which
layers of the target are read, the block's size and the mask token) and model.safetensors: `fc` and
`hidden_norm`, which read the target's states, Qwen3 layers, a final `norm`; of a draft vocabulary
of its own `lm_head`, `d2t` and `t2d`; of DSpark a `markov_head` and a `confidence_head`. Embedding
and, with a whole vocabulary, head are the target's and not stored.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speculative_tts.models.decoder.config import DecoderConfig
from speculative_tts.models.decoder.loading import State, read_state
from speculative_tts.pretrained import naming_odd_values
from speculative_tts.schema.fields import Count, Whole
from speculative_tts.texts import some
from speculative_tts.typed import read_json, typed

KINDS = ("dflash", "dspark")
MARKOV = ("vanilla", "gated", "rnn")
TO_TARGET, IS_DRAFT = "d2t", "t2d"
UNREAD = (  # the target's own, which older files repeat; confidences choose no token
    "verifier_lm_head.weight",
    "verifier_norm.weight",
    "confidence_head.proj.weight",
    "confidence_head.proj.bias",
)


@dataclass(frozen=True)
class BlockConfig:
    """Settings of a block drafter in its config.json."""

    layers: DecoderConfig
    read: tuple[int, ...]  # layers of the target, whose inputs are read
    block: int  # tokens of a block, the newest one first
    mask: int  # row of the target's vocabulary
    draft_vocab: int
    from_newest: bool  # the newest token's place says the next token, else the first mask's does
    markov: str | None  # how the token before biases a law; None: not at all
    markov_rank: int

    @property
    def reach(self) -> int:
        """Tokens of a block that can be drafted."""
        return self.block if self.from_newest else self.block - 1

    @property
    def whole_vocabulary(self) -> bool:
        """True if the draft has the target's head, not one of its own."""
        return self.draft_vocab == self.layers.vocab_size


@dataclass(frozen=True)
class _BlockConfig:
    speculators_model_type: str
    transformer_layer_config: dict[str, Any]
    block_size: Count
    draft_vocab_size: Count
    aux_hidden_state_layer_ids: list[Whole] | None = None
    mask_token_id: Whole | None = None
    sample_from_anchor: bool | None = None
    target_hidden_size: Count | None = None
    markov_rank: Whole = 256
    markov_head_type: str = "vanilla"


def read_block(folder: Path) -> tuple[BlockConfig, State]:
    """Return configuration and tensors; ValueError for what is missing or not supported."""
    where = folder / "config.json"
    remedy = "give a folder that the speculators library wrote, with config.json and weights"
    config = block_config(read_json(where, remedy), where)
    state = read_state(folder, whole=(TO_TARGET, IS_DRAFT))
    return config, {name: tensor for name, tensor in state.items() if name not in UNREAD}


def block_config(config: dict[str, Any], where: object = "config.json") -> BlockConfig:
    """Translate config.json."""
    kind = config.get("speculators_model_type")
    if kind not in KINDS:
        raise ValueError(
            f"{where}: speculators_model_type {kind!r} is not loaded as a drafter; "
            f"supported: {', '.join(KINDS)}"
        )
    stored = typed(_BlockConfig, config, where)
    layers = DecoderConfig.from_dict(_whole(stored.transformer_layer_config, where), where)
    if stored.aux_hidden_state_layer_ids is None or stored.mask_token_id is None:
        raise ValueError(
            f"{where} does not say aux_hidden_state_layer_ids and mask_token_id; "
            "save the drafter again with speculators 0.5 or later"
        )
    if stored.target_hidden_size not in (None, layers.hidden) or not layers.head_norms:
        raise ValueError(
            f"{where}: draft layers other than qwen3's of the target's own width are not "
            "supported; give another drafter"
        )
    dspark = kind == "dspark" and stored.markov_rank > 0
    if dspark and stored.markov_head_type not in MARKOV:
        raise ValueError(
            f"{where}: markov_head_type {stored.markov_head_type!r} is not supported; "
            f"supported: {', '.join(MARKOV)}"
        )
    default = kind == "dspark"
    given = stored.sample_from_anchor
    return BlockConfig(
        layers=layers,
        read=tuple(stored.aux_hidden_state_layer_ids),
        block=stored.block_size,
        mask=stored.mask_token_id,
        draft_vocab=stored.draft_vocab_size,
        from_newest=default if given is None else given,
        markov=stored.markov_head_type if dspark else None,
        markov_rank=stored.markov_rank,
    )


def _whole(stored: dict[str, Any], where: object) -> dict[str, Any]:
    """Return the draft layers' configuration with what its file leaves out: Qwen3's defaults."""
    from transformers import Qwen3Config

    kind = stored.get("model_type", "qwen3")
    if kind != "qwen3":
        return dict(stored)  # refused by name, or for its norms
    with naming_odd_values(where, "save the drafter again"):
        config: dict[str, Any] = Qwen3Config(**stored).to_dict()
    return config


def draft_rows(config: BlockConfig, state: State, where: Path) -> Tensor | None:
    """Return the target's vocabulary row of each draft token: int64 [draft_vocab]; None: the same.

    ValueError where the maps of the file contradict each other.
    """
    if config.whole_vocabulary:
        state.pop(TO_TARGET, None), state.pop(IS_DRAFT, None)
        return None
    lacking = [name for name in (TO_TARGET, IS_DRAFT, "lm_head.weight") if name not in state]
    if lacking:
        raise ValueError(
            f"{where} has a draft vocabulary of {config.draft_vocab} and no {some(lacking)}; "
            "save the drafter with its vocabulary maps"
        )
    offsets, chosen = state.pop(TO_TARGET).long(), state.pop(IS_DRAFT).bool()
    rows = torch.arange(len(offsets)) + offsets
    if not torch.equal(rows, chosen.nonzero()[:, 0]) or len(rows) != config.draft_vocab:
        raise ValueError(
            f"{where}: d2t and t2d do not say the same {config.draft_vocab} rows; "
            "save the drafter with its vocabulary maps"
        )
    return rows
