"""Small random targets, and block drafters of them as the `speculators` library saves them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_target import LAYOUT
from torch import Tensor

from speculative_tts.decoding.drafters.block import BlockDrafter
from speculative_tts.models.block_draft import BlockDraft, Taken
from speculative_tts.models.block_files import BlockConfig
from speculative_tts.models.block_head import BlockHead
from speculative_tts.models.block_target import BlockTarget
from speculative_tts.models.families.merged_vocab import MergedVocabLM

FLOAT: Any = {"dtype": torch.float32, "device": torch.device("cpu")}
READ = [0, 2, 3]
BLOCK, MASK = 4, LAYOUT.vocab_size - 1
KINDS: dict[str, dict[str, Any]] = {
    "dflash": {},
    "dflash, from the newest": {"sample_from_anchor": True},
    "dspark": {"markov_rank": 3},
    "dspark, gated": {"markov_rank": 3, "markov_head_type": "gated"},
    "dspark, rnn": {"markov_rank": 3, "markov_head_type": "rnn"},
    "dspark, rnn, not from the newest": {
        "markov_rank": 3,
        "markov_head_type": "rnn",
        "sample_from_anchor": False,
    },
    "dspark, no markov": {"markov_rank": 0, "confidence_head_with_markov": False},
    "dflash, few": {"draft_vocab_size": 20},
    "dspark, few": {"draft_vocab_size": 20, "markov_rank": 3},
}


def save_block(folder: Path, target: Path, kind: str, **changes: Any) -> Any:
    """Save a drafter with random weights and return it, with the target's embedding and head."""
    why = "speculators is not here: make venv installs it"
    speculators = pytest.importorskip("speculators", reason=why)
    from speculators.config import VerifierConfig
    from speculators.models.dflash import DFlashDraftModel, DFlashSpeculatorConfig
    from speculators.models.dspark import DSparkDraftModel, DSparkSpeculatorConfig
    from speculators.proposals.greedy import GreedyTokenProposalConfig
    from transformers import Qwen3Config

    settings, layers = {**KINDS[kind], **changes}, settings_of(target)
    algorithm = kind.partition(",")[0]
    config, model = {
        "dflash": (DFlashSpeculatorConfig, DFlashDraftModel),
        "dspark": (DSparkSpeculatorConfig, DSparkDraftModel),
    }[algorithm]
    inner = Qwen3Config(**layers, attn_implementation="eager")
    drafts = settings.pop("draft_vocab_size", layers["vocab_size"])
    torch.manual_seed(5)
    draft = model(
        config(
            transformer_layer_config=inner,
            draft_vocab_size=drafts,
            block_size=BLOCK,
            aux_hidden_state_layer_ids=READ,
            mask_token_id=MASK,
            speculators_config=speculators.SpeculatorsConfig(
                algorithm=algorithm,
                proposal_methods=[GreedyTokenProposalConfig(speculative_tokens=BLOCK - 1)],
                default_proposal_method="greedy",
                verifier=VerifierConfig.from_pretrained(str(target)),
            ),
            **settings,
        )
    )
    for parameter in draft.parameters():
        parameter.data.normal_(0, 0.4)
    if drafts < layers["vocab_size"]:
        chosen = torch.arange(layers["vocab_size"]) % 3 != 1
        chosen[chosen.nonzero()[drafts:, 0]] = False
        rows = chosen.nonzero()[:, 0]
        draft.load_vocab_mappings(chosen, rows - torch.arange(len(rows)))
    draft.load_verifier_weights()
    draft.float().eval().save_pretrained(folder)
    return draft


def load_block(target: Path, folder: Path) -> BlockDrafter:
    """Load a saved drafter for its target, over all of the target's speech ids."""
    model = MergedVocabLM.load(target, **FLOAT)
    order = model.layout.order(text_rows=False)
    return BlockDrafter.load(folder, model, order[: model.vocab_size], torch.float32)


def random_block(target: MergedVocabLM, markov: str | None = None) -> BlockDrafter:
    """Return a drafter of a target with random weights, without the library; markov: DSpark's."""
    own, generator = target.decoder.config, torch.Generator().manual_seed(5)
    layers = replace(own, layers=2, heads=3, kv_heads=1, head_dim=6, intermediate=20)
    layers = replace(layers, qkv_bias=False, head_norms=True)
    read = tuple(range(0, own.layers, 2))
    sizes = BlockConfig(
        layers, read, BLOCK, own.vocab_size - 1, own.vocab_size, markov is not None, markov, 3
    )
    wide, vocab, rank = own.hidden, own.vocab_size, sizes.markov_rank
    shapes = {"fc.weight": (wide, len(read) * wide), "hidden_norm.weight": (wide,)}
    shapes |= {"norm.weight": (wide,)}
    one = {"self_attn.q_proj": (18, wide), "self_attn.k_proj": (6, wide), "mlp.up_proj": (20, wide)}
    one |= {"self_attn.v_proj": (6, wide), "self_attn.o_proj": (wide, 18)}
    one |= {"mlp.gate_proj": (20, wide), "mlp.down_proj": (wide, 20), "input_layernorm": (wide,)}
    one |= {"post_attention_layernorm": (wide,), "self_attn.q_norm": (6,), "self_attn.k_norm": (6,)}
    for index in range(layers.layers):
        shapes |= {f"layers.{index}.{name}.weight": shape for name, shape in one.items()}
    if markov is not None:
        shapes |= {f"markov_head.markov_w{i}.weight": (vocab, rank) for i in (1, 2)}
    state = {name: 0.4 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    take = Taken(state, torch.float32, target.device)
    order = target.layout.order(text_rows=False)[: target.vocab_size].to(target.device)
    draft = BlockDraft(sizes, take)
    head = BlockHead(sizes, take, None, target, order)
    take.done()
    return BlockDrafter(draft, head, BlockTarget(target, draft))


def settings_of(target: Path) -> dict[str, Any]:
    """Return the settings of draft layers as wide as a target's."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(target)
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": 20,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "head_dim": 6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e5},
        "rms_norm_eps": 1e-5,
    }


def theirs(draft: Any, target: Any, ids: Tensor, places: list[int]) -> Tensor:
    """Return speculators' logits [places, block, draft vocabulary] of blocks at these positions.

    The tokens of a block are those of ids [length]: DSpark's laws follow them.
    """
    states = target(ids[None], output_hidden_states=True).hidden_states
    wide = torch.cat([states[layer] for layer in READ], -1)
    wanted = torch.zeros(1, len(ids))
    wanted[0, places] = 1
    hidden, logits, *_ = draft._backbone_forward(
        wide, ids[None], wanted, states[-1], torch.zeros(1, len(ids), dtype=torch.int64),
        max_anchors=len(places),
    )  # fmt: skip
    logits = logits.view(len(places), BLOCK, -1)
    if getattr(draft, "markov_head", None) is None:
        return logits
    tokens = torch.stack([ids[place : place + BLOCK] for place in places])
    if not draft.config.sample_from_anchor:
        tokens = torch.cat([tokens[:, :1], tokens[:, :-1]], 1)
    states = hidden.view(len(places), BLOCK, -1)
    return logits + draft.markov_head.block_bias(prev_token_ids=tokens, hidden_states=states)
